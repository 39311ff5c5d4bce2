# SPDX-License-Identifier: Apache-2.0
"""The forward definition of a value that a backward reads, across loops and branches.

JAX hands the residuals of a loop to the loop of its backward in stacks: the forward writes one
value an iteration (`dynamic_update_slice(stack, r, i)`), the backward reads it again
(`dynamic_slice(stack, n-1-i)`). Branches and manual computations hand them over as results. An
origin is proven, or it is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo_remat.ir.index import Index
from hlo_remat.ir.loops import Affine, Loops
from hlo_remat.ir.needs import BRANCHES, LOOP, MANUAL

_SHAPING = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim"})


@dataclasses.dataclass(frozen=True)
class Frame:
    """A backward op inside which a value is read, the forward op inside which it was made, and
    for loops the forward's trip as a function of the backward's, for branches their number; neither
    for manual computations.

    `slots` are a dynamic_update_slice and a dynamic_slice that hand something over from one loop to
    the other: whatever uses their indices is handed over from and to the same trips.
    """

    backward: int
    forward: int
    trip: Affine | None = None
    branch: int | None = None
    slots: tuple[int, int] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Origin:
    """A forward value and the frames, from the outermost, that lead to it."""

    value: int
    frames: tuple[Frame, ...]


@dataclasses.dataclass(frozen=True)
class Handout:
    """A value that an op hands out of `block`: from a loop in a stack, where trip t writes row
    `row(t)`; from a branch as it is; from a manual computation as the part of one device.
    """

    value: int
    block: int
    row: Affine | None = None


class Origins:
    """Finds the origins of the values of a function.

    `made` looks through markers: what is handed into an outer region's backward is what it was.
    """

    def __init__(self, index: Index, made: Callable[[int], int]):
        self.index = index
        self.made = made
        self.loops = Loops(index)
        self.proven: set[int] = set()  # reads of a forward loop's stacks
        self.unproven: dict[int, str] = {}  # others of them, with what is not proven
        self.takes_part: set[int] = set()  # slices that only take a value out of an unrolled stack
        self._memo: dict[int, Origin | None] = {}

    def of(self, value: int, block: int) -> Origin | None:
        """The origin of `value` as read in `block`; None where there is none, or no proof."""
        if value not in self._memo:
            self._memo[value] = (
                self._across_loop(value)
                or self._part_of_unrolled(value)
                or self._across_manual(value)
            )
        found = self._memo[value]
        for branching, branch in self._branches_around(block):
            is_from_outside = not self.index.is_inside(value, branching)
            outer = found or Origin(self.made(value) if is_from_outside else value, ())
            inner = self._across_branch(outer, branching, branch)
            found = inner or found
        return found

    # -- loops ---------------------------------------------------------------------------------

    # Rewrite: reshape(dynamic_slice(stack, g(j))) -> r, for stack = while(... dynamic_update_slice(
    #          stack, r, f(i)) ...) and f(i) = g(j)
    def _across_loop(self, value: int) -> Origin | None:
        read = self._through_shaping(value)
        if read is None or self.index.names[read] != "stablehlo.dynamic_slice":
            return None
        backward = self.index.parent[read]
        stack, *indices = self.index.operands[read]
        if backward < 0 or self.index.names[backward] != LOOP:
            return None
        if not self._is_slot(self.index.results[read][0], stack):
            return None
        outside = self._before_reshapes(self.loops.outer(stack))
        outer = self.of(outside, self.index.block[backward])
        made, frames = (outer.value, outer.frames) if outer else (outside, ())
        forward = self.index.definer[made]
        if forward < 0 or self.index.names[forward] != LOOP:
            return None
        carry = self.index.results[forward].index(made)
        written = self._written(forward, carry)
        if written is None:
            self.unproven[read] = "the forward loop doesn't write it once a trip, and nothing else"
            return None
        if not self._same_type(written[0], value):
            return None
        trip = self._trip(forward, written[1], backward, indices, stack)
        if trip is None:
            self.unproven[read] = (
                "the rows that are read aren't proven to be those that were written"
            )
            return None
        write = self.index.definer[self.loops.yielded(forward)[carry]]
        self.proven.add(read)
        frame = Frame(backward, forward, trip, slots=(write, read))
        return Origin(written[0], (*frames, frame))

    def _before_reshapes(self, value: int) -> int:
        """The value that a chain of reshapes brings back to its own shape."""
        source = value = self.made(value)
        while (op := self.index.definer[source]) >= 0:
            if self.index.names[op] != "stablehlo.reshape":
                break
            source = self.made(self.index.operands[op][0])
        return source if self._same_type(source, value) else value

    # Rewrite: reshape(slice(c, k)) -> r, for c read from a stack of concatenate(..., r, ...), which
    #          is how an unrolled loop hands over the k-th of its steps
    def _part_of_unrolled(self, value: int) -> Origin | None:
        read = self._through_shaping(value)
        if read is None or self.index.names[read] != "stablehlo.slice":
            return None
        whole = self._across_loop(self.index.operands[read][0])
        joined = self.index.definer[whole.value] if whole else -1
        if whole is None or joined < 0 or self.index.names[joined] != "stablehlo.concatenate":
            return None
        number = self._row(read)
        parts = self.index.operands[joined]
        if number is None or not all(self._is_slot(part, whole.value) for part in parts):
            return None
        shaping = self.index.definer[parts[number]]
        if shaping < 0 or self.index.names[shaping] not in _SHAPING:
            return None
        made = self.index.operands[shaping][0]
        if not self._keeps_elements(shaping) or not self._same_type(made, value):
            return None
        self.takes_part.add(read)
        return Origin(made, whole.frames)

    def _row(self, slicing: int) -> int | None:
        """Which row of its operand a slice takes, if it takes one whole row."""
        if not self._is_slot(self.index.results[slicing][0], self.index.operands[slicing][0]):
            return None
        starts: Any = self.index.ops[slicing].attributes["start_indices"]
        return next(iter(starts))

    def _through_shaping(self, value: int) -> int | None:
        """The op that makes a value, under a reshape that only drops or adds unit dimensions."""
        op = self.index.definer[value]
        if op >= 0 and self.index.names[op] in _SHAPING and self._keeps_elements(op):
            op = self.index.definer[self.index.operands[op][0]]
        return op if op >= 0 else None

    def _keeps_elements(self, op: int) -> bool:
        before = self.index.values[self.index.operands[op][0]].type
        after = self.index.values[self.index.results[op][0]].type
        return _non_unit(before) == _non_unit(after) and _is_in_order(self.index, op)

    def _written(self, loop: int, carry: int) -> tuple[int, list[int]] | None:
        """What a loop writes into a stack once an iteration, and the indices; nothing else may
        touch the stack in the loop."""
        argument = self.loops.arguments(loop)[carry]
        update = self.index.definer[self.loops.yielded(loop)[carry]]
        if update < 0 or self.index.names[update] != "stablehlo.dynamic_update_slice":
            return None
        stack, slot, *indices = self.index.operands[update]
        if stack != argument or len(self.index.uses[argument]) != 1:
            return None
        if not self._is_slot(slot, stack):
            return None
        if self.index.block[update] != self.loops.body(loop):
            return None
        shaping = self.index.definer[slot]
        if shaping < 0 or self.index.names[shaping] not in _SHAPING:
            return None
        return (self.index.operands[shaping][0], indices) if self._keeps_elements(shaping) else None

    def handed_out(self, op: int, result: int) -> list[Handout]:
        """What an op with regions hands out as one of its results, where that is proven."""
        name = self.index.names[op]
        if name == MANUAL:
            body = self.index.nested_blocks[op][0]
            value = self.index.operands[self.index.blocks[body][-1]][result]
            return [Handout(self._before_shaping(value), body)]
        if name in BRANCHES:
            terminators = ((b, self.index.blocks[b][-1]) for b in self.index.nested_blocks[op])
            return [Handout(self.index.operands[last][result], b) for b, last in terminators]
        written = self._written(op, result) if name == LOOP else None
        trips = self.loops.trips(op) if written else None
        if not written or not trips:
            return []
        value, (index, *rest) = written
        row = self.loops.affine(index)
        if row is None or any(self.loops.affine(v) != Affine(0, 0) for v in rest):
            return []
        least, greatest = row.range(trips)
        rows = self._shape(self.index.results[op][result])[0]
        if row.loop != op or least < 0 or greatest >= rows:
            return []
        return [Handout(value, self.loops.body(op), row)]

    def _trip(
        self, forward: int, written: list[int], backward: int, read: list[int], stack: int
    ) -> Affine | None:
        """The forward's trip that wrote the slot which the backward's trip reads."""
        n_forward, n_backward = self.loops.trips(forward), self.loops.trips(backward)
        functions = [self.loops.affine(v) for v in (written[0], read[0])]
        rest = [self.loops.affine(v) for v in (*written[1:], *read[1:])]
        if any(f != Affine(0, 0) for f in rest) or None in functions:
            return None
        if not n_forward or not n_backward:
            return None
        f, g = functions
        assert f is not None
        assert g is not None
        if f.scale not in (1, -1) or f.loop != forward or not g.in_loop(backward):
            return None
        trip = Affine(f.scale * g.scale, f.scale * (g.offset - f.offset))
        first, last = trip.range(n_backward)
        least, greatest = f.range(n_forward)
        if first < 0 or last >= n_forward or least < 0 or greatest >= self._shape(stack)[0]:
            return None
        return trip

    def _shape(self, value: int) -> list[int]:
        return list(ir.RankedTensorType(self.index.values[value].type).shape)

    def _is_slot(self, slot: int, stack: int) -> bool:
        """Whether one value has the shape of one row of another."""
        return self._shape(slot) == [1, *self._shape(stack)[1:]]

    def _same_type(self, a: int, b: int) -> bool:
        return self.index.values[a].type == self.index.values[b].type

    # -- manual computations -------------------------------------------------------------------

    # Rewrite: argument k of manual_computation(..., manual_computation(...)#r, ...) -> what the
    #          forward's returns as r, for in_shardings[k] = out_shardings[r]
    def _across_manual(self, value: int) -> Origin | None:
        source = self._before_shaping(value)
        backward = self.index.home(source)
        if self.index.definer[source] >= 0 or backward < 0 or self.index.names[backward] != MANUAL:
            return None
        block = self.index.nested_blocks[backward][0]
        operand_number = self.index.block_arguments[block].index(source)
        operand = self.made(self.index.operands[backward][operand_number])
        outer = self.of(operand, self.index.block[backward])
        made, frames = (outer.value, outer.frames) if outer else (operand, ())
        forward = self.index.definer[made]
        if forward < 0 or self.index.names[forward] != MANUAL:
            return None
        result = self.index.results[forward].index(made)
        if not self._is_same_view(
            (forward, "out_shardings", result), (backward, "in_shardings", operand_number)
        ):
            return None
        inside = self.index.blocks[self.index.nested_blocks[forward][0]]
        inner = self.index.operands[inside[-1]][result]
        if not self._same_type(inner, value):  # what is scalar crosses as a vector
            inner = self._before_shaping(inner)
        if not self._same_type(inner, value):
            return None
        return Origin(inner, (*frames, Frame(backward, forward)))

    def is_same_argument(self, forward: int, u: int, backward: int, v: int) -> bool:
        """Whether operands u and v of two manual computations are seen alike in their bodies."""
        return self._is_same_view((forward, "in_shardings", u), (backward, "in_shardings", v))

    def _is_same_view(self, a: tuple[int, str, int], b: tuple[int, str, int]) -> bool:
        first, second = self.index.ops[a[0]].attributes, self.index.ops[b[0]].attributes
        shardings = [
            sdy.TensorShardingPerValueAttr(attributes[name]).shardings[number]
            for attributes, (_, name, number) in ((first, a), (second, b))
        ]
        return bool(first["manual_axes"] == second["manual_axes"] and shardings[0] == shardings[1])

    def _before_shaping(self, value: int) -> int:
        op = self.index.definer[value]
        is_shaping = op >= 0 and self.index.names[op] in _SHAPING and self._keeps_elements(op)
        return self.index.operands[op][0] if is_shaping else value

    # -- branches ------------------------------------------------------------------------------

    def _branches_around(self, block: int) -> list[tuple[int, int]]:
        """The case ops around a block, from the outermost, each with the branch that it is in."""
        found = []
        op = self.index.block_owner[block]
        while op >= 0:
            if self.index.names[op] in BRANCHES:
                found.append((op, self.index.nested_blocks[op].index(block)))
            block = self.index.block[op]
            op = self.index.parent[op]
        return found[::-1]

    # Rewrite: r read in branch b of case(p) -> what branch b of the forward's case(p) returns
    def _across_branch(self, outer: Origin, backward: int, branch: int) -> Origin | None:
        forward = self.index.definer[outer.value]
        if forward < 0 or forward == backward:
            return None
        if self.index.names[forward] != self.index.names[backward]:
            return None
        chosen, condition = (self.made(self.index.operands[op][0]) for op in (backward, forward))
        if chosen != condition:
            known = self.of(chosen, self.index.block[backward])
            if known is None or known.value != condition:
                return None
            if known.frames != outer.frames[: len(known.frames)]:
                return None
        blocks = self.index.nested_blocks[forward]
        if len(blocks) != len(self.index.nested_blocks[backward]):
            return None
        result = self.index.results[forward].index(outer.value)
        value = self.index.operands[self.index.blocks[blocks[branch]][-1]][result]
        return Origin(value, (*outer.frames, Frame(backward, forward, branch=branch)))


def _non_unit(type_: object) -> list[int]:
    return [n for n in getattr(type_, "shape", ()) if n != 1]


def _is_in_order(index: Index, op: int) -> bool:
    """Whether a broadcast only adds unit dimensions, without moving any."""
    if index.names[op] != "stablehlo.broadcast_in_dim":
        return True
    attribute: Any = index.ops[op].attributes["broadcast_dimensions"]
    dims = list(attribute)
    return dims == sorted(dims)
