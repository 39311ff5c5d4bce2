# SPDX-License-Identifier: Apache-2.0
"""What a backward in a loop or a branch reads of regions, and no region of that backward claims.

It stays saved. Nothing is decided by what is found here: it is for remarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set

from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.markers import Kind
from hlo_remat.ir.needs import BRANCHES, LOOP, MANUAL, SLOTTED
from hlo_remat.ir.pairing import Pairing

_ELSEWHERE = "it is of another trip than the region's inputs, or of another loop"
_CHANGED = "it isn't proven to be what the forward handed over, unchanged"


class Unclaimed:
    """`made` has, for each block with enters, what depends on them there, up to their exits;
    `handed` what depends on that outside of the block."""

    def __init__(self, index: Index, aliases: Aliases, pairing: Pairing):
        self.index = index
        self.aliases = aliases
        self.pairing = pairing
        entered: dict[int, list[int]] = defaultdict(list)
        for op, marker in aliases.markers.items():
            if marker.kind is Kind.ENTER:
                entered[index.block[op]] += index.results[op]
        self.made = {block: self._follow(values, block) for block, values in entered.items()}
        self.handed = self._follow(
            v
            for block, values in self.made.items()
            for k, operand in enumerate(index.operands[index.blocks[block][-1]])
            if operand in values
            for v in self._next((index.blocks[block][-1], k))
        )

    def reads(self, block: int, claimed: Set[int]) -> Iterator[tuple[int, str]]:
        """The ops of a backward's block that read what is not `claimed`, and why it isn't."""
        index, origins = self.index, self.pairing.origins
        for by_value in self.pairing.reads(block).values():
            for made, values in by_value.items():
                if made in self.made.get(index.home_block(made), ()):
                    for v in values:
                        if v not in claimed and any(self._counts(u, block) for u in index.uses[v]):
                            yield index.home(v), _ELSEWHERE
        owner = index.block_owner[block]
        arguments = zip(index.block_arguments[block], index.operands[owner], strict=False)
        entering = [inside for inside, outside in arguments if outside in self.handed]
        for v in self.pairing.values_in(block):
            if v in self.handed and not index.is_inside(v, owner):
                entering.append(v)
        explained = origins.proven | origins.unproven.keys()
        for v in entering:
            changes = origins.loops.loop_of_argument(v) and origins.loops.outer(v) == v
            for op in {use[0] for use in index.uses[v] if self._counts(use, block)}:
                is_data = changes and index.names[op] != "stablehlo.dynamic_slice"
                if op in explained or is_data:
                    continue
                read = (v, *index.results[op])
                if not any(origins.of(u, index.block[op]) for u in read):
                    yield op, _CHANGED

    def _counts(self, use: Use, block: int) -> bool:
        """Whether an op in `block`, at any depth, computes with what it uses."""
        op = use[0]
        return (
            self.index.in_block(op, block) >= 0
            and op != self.index.blocks[self.index.block[op]][-1]
            and op not in self.aliases.markers
            and self.index.names[op] not in SLOTTED
        )

    def _follow(self, values: Iterable[int], block: int | None = None) -> set[int]:
        """What depends on `values`, in `block` if one is given, up to where regions end."""
        seen = set(values)
        todo = list(seen)
        while todo:
            for use in self.index.uses[todo.pop()]:
                if block is None or use[0] != self.index.blocks[block][-1]:
                    new = [v for v in self._next(use) if v not in seen]
                    seen.update(new)
                    todo += new
        return seen

    def _next(self, use: Use) -> list[int]:
        """The values that are made of an operand."""
        index, (op, k) = self.index, use
        marker = self.aliases.markers.get(op)
        if marker is not None:
            ends = marker.kind in (Kind.EXIT, Kind.BWD_EXIT)
            result = None if ends else marker.result_of(k)
            return [] if result is None else [index.results[op][result]]
        if index.names[op] in (LOOP, MANUAL):
            return [index.block_arguments[b][k] for b in index.nested_blocks[op]]
        if index.names[op] in BRANCHES:
            return []
        parent = index.parent[op]
        if op != index.blocks[index.block[op]][-1] or parent < 0:
            return index.results[op]
        blocks = index.nested_blocks[parent]
        if index.names[parent] not in SLOTTED:
            return []
        if index.names[parent] != LOOP:
            return [index.results[parent][k]]
        if index.block[op] == blocks[0]:
            return []
        return [index.results[parent][k], *(index.block_arguments[b][k] for b in blocks)]
