# SPDX-License-Identifier: Apache-2.0
"""Which forward belongs to a backward: regions are paired by the values that join them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index
from hlo_remat.ir.markers import Kind, Marker
from hlo_remat.ir.needs import MANUAL
from hlo_remat.ir.origin import Frame, Origins
from hlo_remat.ir.purity import Purity


@dataclasses.dataclass(frozen=True)
class Pair:
    """The enter of a region, and the frames between it and the bwd_enter (none in one block)."""

    enter: int
    frames: tuple[Frame, ...] = ()


class Pairing:
    """Pairs the bwd_enters of a function with enters. A region's markers have the same raw
    inputs: in one block the same values, across loops and branches values proven equal."""

    def __init__(self, index: Index, markers: dict[int, Marker], aliases: Aliases, purity: Purity):
        self.index = index
        self.markers = markers
        self.aliases = aliases
        self.purity = purity
        self.origins = Origins(index, aliases.made)
        self._reads: dict[int, dict[tuple[Frame, ...], dict[int, list[int]]]] = {}

    def pairs(self) -> dict[int, Pair | None]:
        """For each bwd_enter its pair; None where no forward is found.

        Where several regions have the same inputs, the backward runs through them in reverse
        order. A wrong pair would cost memory, never correctness: every recomputed value has the
        origin that was proven for it.
        """
        backwards = [i for i, m in sorted(self.markers.items()) if m.kind is Kind.BWD_ENTER]
        if not backwards:
            return {}
        by_block: dict[int, list[int]] = defaultdict(list)
        for i, marker in sorted(self.markers.items()):
            if marker.kind is Kind.ENTER:
                by_block[self.index.block[i]].append(i)
        pairs: dict[int, Pair | None] = {}
        ranks: dict[tuple[Pair, ...], int] = defaultdict(int)
        for backward in backwards:
            candidates = tuple(self._candidates(backward, by_block))
            rank = ranks[candidates]
            ranks[candidates] += 1
            if not candidates:
                pairs[backward] = None
            else:
                pairs[backward] = candidates[-1 - rank if rank < len(candidates) else 0]
        return pairs

    def inputs(self, marker_op: int) -> list[int]:
        """The raw inputs of a bwd_enter or a bwd_exit."""
        marker = self.markers[marker_op]
        return self.index.operands[marker_op][len(marker.values) :][: len(marker.inputs)]

    def reads(self, block: int) -> dict[tuple[Frame, ...], dict[int, list[int]]]:
        """For the frames that lead to what `block` reads: forward value -> the values in `block`
        that are it."""
        if block not in self._reads:
            found: dict[tuple[Frame, ...], dict[int, list[int]]] = {}
            for value in self.values_in(block):
                origin = self.origins.of(value, block)
                if origin is None or origin.frames[-1].backward != self.index.block_owner[block]:
                    continue
                by_value = found.setdefault(origin.frames, {})
                by_value.setdefault(origin.value, []).append(value)
            self._reads[block] = found
        return self._reads[block]

    def values_in(self, block: int) -> list[int]:
        """The values that a block reads or makes."""
        members = self.index.blocks[block]
        ops = range(members[0], self.index.end[members[-1]]) if members else ()
        read = {v for op in ops for v in self.index.operands[op]}
        return sorted(read.union(*(self.index.results[op] for op in members)))

    def _candidates(self, backward: int, by_block: dict[int, list[int]]) -> Iterator[Pair]:
        block = self.index.block[backward]
        inputs = self.inputs(backward)
        same = [e for e in by_block[block] if e < backward and self.index.operands[e] == inputs]
        if same:
            yield from map(Pair, same)
            return
        for frames, by_value in self.reads(block).items():
            for home in sorted({self.index.home_block(made) for made in by_value}):
                for enter in by_block[home]:
                    operands = self.index.operands[enter]
                    if len(operands) == len(inputs) and all(
                        self.same(u, v, block, frames)
                        for u, v in zip(operands, inputs, strict=True)
                    ):
                        yield Pair(enter, frames)

    # -- equality of a forward value and a backward one ----------------------------------------

    def same(self, u: int, v: int, block: int, frames: tuple[Frame, ...]) -> bool:
        """Whether `v`, read in `block`, is proven to be the forward value `u`."""
        u, v = self.aliases.made(u), self.aliases.made(v)
        if u == v:
            return True
        if self.index.values[u].type != self.index.values[v].type:
            return False
        origin = self.origins.of(v, block)
        if origin is not None and self.aliases.made(origin.value) == u:
            return origin.frames == frames[: len(origin.frames)]
        outer_u, outer_v = self.origins.loops.outer(u), self.origins.loops.outer(v)
        if (outer_u, outer_v) != (u, v):
            return outer_u == outer_v or self.same(
                outer_u, outer_v, self.index.home_block(outer_v), frames[:-1]
            )
        return (
            self._same_scalar(u, v, frames)
            or self._same_argument(u, v, frames)
            or self._same_op(u, v, block, frames)
        )

    def _same_argument(self, u: int, v: int, frames: tuple[Frame, ...]) -> bool:
        """Arguments of two manual computations."""
        forward, backward = self.index.home(u), self.index.home(v)
        depth = next((k for k, f in enumerate(frames) if f.backward == backward), None)
        if self.index.definer[u] >= 0 or self.index.definer[v] >= 0 or depth is None:
            return False
        if frames[depth].forward != forward or self.index.names[backward] != MANUAL:
            return False
        i, j = (
            self.index.block_arguments[self.index.block_of_argument(value)].index(value)
            for value in (u, v)
        )
        outside = self.index.operands[forward][i], self.index.operands[backward][j]
        return self.origins.is_same_argument(forward, i, backward, j) and self.same(
            *outside, self.index.block[backward], frames[:depth]
        )

    def _same_scalar(self, u: int, v: int, frames: tuple[Frame, ...]) -> bool:
        loops = self.origins.loops
        if not _is_integer_scalar(self.index, u):
            return False
        f, g = loops.affine(u), loops.affine(v)
        if f is None or g is None:
            return False
        for frame in frames:
            if frame.trip is not None and f.loop == frame.forward and g.in_loop(frame.backward):
                after = f.after(frame.trip)
                return (after.scale, after.offset) == (g.scale, g.offset)
        return f == g

    def _same_op(self, u: int, v: int, block: int, frames: tuple[Frame, ...]) -> bool:
        a, b = self.index.definer[u], self.index.definer[v]
        if a < 0 or b < 0 or self.index.names[a] != self.index.names[b]:
            return False
        if a in self.markers or b in self.markers or self.index.end[a] != a + 1:
            return False
        if not _same_attributes(self.index, a, b) or self.purity.is_impure(self.index.ops[a]):
            return False
        if self.index.results[a].index(u) != self.index.results[b].index(v):
            return False
        operands = zip(self.index.operands[a], self.index.operands[b], strict=False)
        return len(self.index.operands[a]) == len(self.index.operands[b]) and all(
            self.same(x, y, block, frames) for x, y in operands
        )


def _is_integer_scalar(index: Index, value: int) -> bool:
    text = str(index.values[value].type)
    return text.startswith(("tensor<i", "tensor<ui")) and "x" not in text


def _same_attributes(index: Index, a: int, b: int) -> bool:
    first, second = index.ops[a].attributes, index.ops[b].attributes
    names = [getattr(n, "name", n) for n in first]
    others = [getattr(n, "name", n) for n in second]
    return names == others and all(first[n] == second[n] for n in names)
