# SPDX-License-Identifier: Apache-2.0
"""The backwards of regions, from recompute to bwd_exit, as sets of ops to be fenced as one."""

from __future__ import annotations

from collections import defaultdict

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.index import Index
from hlo_remat.ir.markers import Kind
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.regions import read_markers


class Backwards:
    """Finds, for each recompute of a function, its bwd_exit and the ops that lead there."""

    def __init__(self, function: ir.Operation, purity: Purity):
        self.index = Index(function)
        self.markers = read_markers(self.index, Diagnostics())
        self.impure = purity.impure_ops(self.index)
        self.recomputes = [i for i, m in self.markers.items() if m.kind is Kind.RECOMPUTE]
        self.ends = self._ends()

    def _ends(self) -> dict[int, int]:
        """The bwd_exit of each recompute: backwards nest, so the last one opened closes first."""
        ends: dict[int, int] = {}
        opened: dict[tuple[int, str], list[int]] = defaultdict(list)
        for op in sorted(self.markers):
            marker = self.markers[op]
            key = self.index.block[op], marker.label
            if marker.kind in (Kind.RECOMPUTE, Kind.BWD_ENTER):
                opened[key].append(op)
            elif marker.kind is Kind.BWD_EXIT and opened[key]:
                ends[opened[key].pop()] = op
        return ends

    def ops_of(self, op: int) -> list[int] | None:
        """The ops between a recompute and its bwd_exit that the latter depends on.

        None where they can't become one computation: there is no bwd_exit, or one of them belongs
        to another region, has an effect that must stay in order, or is read before the bwd_exit,
        as may be what the recompute returns.
        """
        end = self.ends.get(op)
        if end is None:
            return None
        index = self.index
        block = index.block[op]
        found: set[int] = set()
        todo = list(index.operands[end][: len(self.markers[end].values)])
        while todo:
            definer = index.definer[todo.pop()]
            if definer < 0 or definer in found or definer <= op or index.block[definer] != block:
                continue
            if definer in self.markers and self.markers[definer].kind is not Kind.NAME:
                return None
            found.add(definer)
            todo += index.reads(definer)
        if any(self.impure[i] or self._has_markers(i) for i in found):
            return None
        for i in (op, *found):
            users = (index.in_block(j, block) for v in index.results[i] for j, _ in index.uses[v])
            if any(user < end and user not in found for user in users):
                return None
        return sorted(found)

    def _has_markers(self, op: int) -> bool:
        nested = (self.markers.get(i) for i in range(op + 1, self.index.end[op]))
        return any(m is not None and m.kind is not Kind.NAME for m in nested)

    def captured(self, op: int, inside: list[int]) -> list[int]:
        """The values from elsewhere that the ops `inside` read."""
        return sorted({v for i in inside for v in self.index.reads(i)} - self._made(op, inside))

    def outs(self, op: int, inside: list[int]) -> list[int]:
        """The values made by a recompute or the ops `inside` that others read."""
        index, members = self.index, set(inside)
        return [
            v
            for v in sorted(self._made(op, inside))
            if any(index.in_block(j, index.block[op]) not in members for j, _ in index.uses[v])
        ]

    def _made(self, op: int, inside: list[int]) -> set[int]:
        return {v for i in inside for v in self.index.results[i]} | set(self.index.results[op])
