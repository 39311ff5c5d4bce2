# SPDX-License-Identifier: Apache-2.0
"""Where each region's forward lies, and what of it the backward reads."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.loops import Loops
from hlo_remat.ir.markers import Kind, Marker, MarkerReader
from hlo_remat.ir.origin import Frame
from hlo_remat.ir.pairing import Pair, Pairing


def read_markers(index: Index, diagnostics: Diagnostics) -> dict[int, Marker]:
    """The markers of a function by op. A marker that breaks the specification is an error."""
    markers, reader = {}, MarkerReader(diagnostics)
    for i, name in enumerate(index.names):
        if name == "stablehlo.composite":
            marker = reader.read(index.ops[i])
            if marker is not None:
                markers[i] = marker
    return markers


@dataclasses.dataclass(frozen=True)
class Forward:
    """The forward of one region as its backward, which starts at `bwd_enter`, sees it.

    `ops` depend on the region's inputs, `inputs`. `residual_uses` are the places after `bwd_enter`
    that read values of the forward, by value. `in_backward` gives for a forward value the value
    that is it at `bwd_enter`: itself in one block, else one that was handed over, if any was.
    `reads` are those that were handed over.
    """

    enter: int
    bwd_enter: int
    ops: frozenset[int]
    inputs: tuple[int, ...]
    residual_uses: dict[int, list[Use]]
    in_backward: dict[int, int] | None
    frames: tuple[Frame, ...] = ()
    reads: frozenset[int] = frozenset()

    def at_backward(self, value: int) -> int | None:
        return value if self.in_backward is None else self.in_backward.get(value)

    def outside(self, value: int, loops: Loops) -> int:
        """A value that is no part of the forward, as the backward may see it."""
        return value if self.in_backward is None else loops.outer(value)


def forward_of(
    index: Index,
    aliases: Aliases,
    pairing: Pairing,
    pair: Pair,
    bwd_enter: int,
    is_live: list[bool],
    constants: Constants,
) -> Forward:
    """Follows the uses of the region's inputs up to its exit and to the backward."""
    enter = pair.enter
    block = index.block[enter]
    inputs = tuple(index.operands[enter])
    ops: set[int] = set()
    residual_uses: dict[int, list[Use]] = defaultdict(list)
    todo = list(index.results[enter])
    seen = set(todo)
    is_one_block = not pair.frames

    def reach(values: Iterable[int]) -> None:
        for v in values:
            if v not in seen:
                seen.add(v)
                todo.append(v)

    def is_residual_use(use: Use) -> bool:
        backward = index.block[bwd_enter]
        op = index.in_block(use[0], backward)
        return (
            op > bwd_enter
            and is_live[use[0]]
            and use[0] not in pairing.origins.takes_part
            and not aliases.is_inert(use)
            and op != index.blocks[backward][-1]
        )

    while todo:
        value = todo.pop()
        for use in index.uses[value]:
            op = index.in_block(use[0], block)
            if is_one_block and op > bwd_enter:
                if is_residual_use(use):
                    residual_uses[value].append(use)
                continue
            marker = aliases.markers.get(op)
            if marker is None:
                ops.add(op)
                reach(index.results[op])
            elif op != bwd_enter and not _closes(index, marker, op, inputs):
                result = marker.result_of(use[1])
                if result is not None:
                    ops.add(op)
                    reach([index.results[op][result]])

    in_backward = None
    handed: set[int] = set()
    if not is_one_block:
        in_backward = dict(zip(inputs, pairing.inputs(bwd_enter), strict=True))
        for made, reads in pairing.reads(index.block[bwd_enter]).get(pair.frames, {}).items():
            if made not in seen:
                continue
            handed.update(reads)
            for read in reads:
                residual_uses[made] += filter(is_residual_use, index.uses[read])
                if index.home(read) < bwd_enter:
                    in_backward.setdefault(aliases.made(made), read)
        # JAX computes what depends on constants alone once, outside of both loops.
        for carried, made in constants.carried_into(index.block[bwd_enter], pairing.origins.loops):
            residual_uses[made] += filter(is_residual_use, index.uses[carried])
    used = {v: uses for v, uses in residual_uses.items() if uses}
    return Forward(
        enter,
        bwd_enter,
        frozenset(ops),
        inputs,
        used,
        in_backward,
        pair.frames,
        frozenset(handed),
    )


def _closes(index: Index, marker: Marker, op: int, inputs: tuple[int, ...]) -> bool:
    if marker.kind in (Kind.ENTER, Kind.NAME):
        return False
    first = len(marker.values)
    return tuple(index.operands[op][first : first + len(marker.inputs)]) == inputs


def live_ops(index: Index, aliases: Aliases, impure: list[bool]) -> list[bool]:
    """For each op whether the function's results or effects depend on it."""
    live = [False] * len(index.ops)
    live_value = [False] * len(index.values)
    last = {members[-1] for members in index.blocks if members}
    for i in range(len(index.ops) - 1, -1, -1):
        results = index.results[i]
        for v in results:
            uses = index.uses[v]
            live_value[v] = any(_is_live_use(index, aliases, u, live, live_value) for u in uses)
        live[i] = impure[i] or i in last or any(live_value[v] for v in results)
    return live


def _is_live_use(
    index: Index, aliases: Aliases, use: Use, live: list[bool], live_value: list[bool]
) -> bool:
    op, operand = use
    marker = aliases.markers.get(op)
    if marker is None or marker.kind is Kind.RECOMPUTE:
        return live[op]
    result = marker.result_of(operand)
    return result is not None and live_value[index.results[op][result]]


class Constants:
    """Which ops are pure and depend on nothing but constants, found when asked."""

    def __init__(self, index: Index, impure: list[bool]):
        self._index = index
        self._impure = impure
        self._known: dict[int, bool] = {}
        self._carried: dict[int, list[tuple[int, int]]] = {}

    def carried_into(self, block: int, loops: Loops) -> list[tuple[int, int]]:
        """What the loops around a block carry unchanged and is made from constants alone: the
        carried value, and what is made outside."""
        if block not in self._carried:
            made = ((v, loops.outer(v)) for v in self._index.block_arguments[block])
            found = [(v, m) for v, m in made if m != v and self._index.definer[m] in self]
            owner = self._index.block_owner[block]
            if owner >= 0:
                found += self.carried_into(self._index.block[owner], loops)
            self._carried[block] = found
        return self._carried[block]

    def __contains__(self, op: int) -> bool:
        if op < 0:
            return False
        todo = [op]
        while todo:
            current = todo[-1]
            if current in self._known:
                todo.pop()
                continue
            makers = {self._index.definer[v] for v in self._index.reads(current)}
            unknown = [m for m in makers if m >= 0 and m not in self._known]
            if self._impure[current] or any(m < 0 for m in makers):
                self._known[current] = False
            elif not unknown:
                self._known[current] = all(self._known[m] for m in makers)
            elif any(self._known.get(m) is False for m in makers):
                self._known[current] = False
            else:
                todo += unknown
                continue
            todo.pop()
        return self._known[op]
