# SPDX-License-Identifier: Apache-2.0
"""Writes what a backward loop runs again of its forward, as markers in the bodies of both.

    while { ... %r }            while { ... %r, enter %i, %x }
    while { %r1 = row, ... }    while { %r1 = row, %x1 = row
                                        %x2, %r2 = bwd_enter %j, %x1, %x1, %r1 {save, recompute} }

The pairs of the two markers' inputs are proven equal by `ir/pairing.py`: rows and what was written
into them, what is the same outside of both loops, and integers that are affine in the trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.budget.program import Program
from hlo_remat.errors import PlanError
from hlo_remat.ir.handover import can_carry, can_hand_over, carry_into, hand_over, integer
from hlo_remat.ir.loops import Affine
from hlo_remat.ir.markers import Decision, Kind, Region, build_marker
from hlo_remat.ir.sizes import size_in_bytes
from hlo_remat.policies import NothingSaveable

_SLICE = "stablehlo.dynamic_slice"
_LARGER = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.convert"})


def write_scan(
    module: ir.Module,
    symbols: ir.SymbolTable,
    program: Program,
    loop: int,
    ops: list[int],
    targets: list[int],
) -> None:
    """Lets the backward loop `loop` of the graph run `ops` again and read from them the values
    `targets` of the graph. Raises PlanError, before it changes anything, where it can't."""
    writer = _ScanWriter(program, loop, ops, targets)
    if writer.targets:
        writer.check()
        writer.write(module, symbols)


class _ScanWriter:
    """Writes one stage in the bodies of a backward loop and of its forward.

    - `rows`: for each value of the forward's body those in the backward's that are it.
    - `targets`: values of the forward's body that are made again.
    - `leaves`: what they are made from.
    - `parts`: what an unrolled loop stacks together with targets, and isn't made again itself.
    """

    def __init__(self, program: Program, loop: int, ops: list[int], targets: list[int]):
        scan = program.scans[loop]
        assert scan.frame is not None
        assert scan.frame.slots is not None
        self.program, self.index, self.frame = program, program.index, scan.frame
        self.loops = program.pairing.origins.loops
        self.label = f"plan.loop{loop}"
        self.body = self.loops.body(scan.op)
        self.slots = [self.index.ops[op] for op in scan.frame.slots]
        self.rows: dict[int, list[int]] = defaultdict(list)
        for value, row in program.reads[scan.op]:
            self.rows[value].append(row)
        made = (program.made[v] for v in targets)
        self.targets = [v for v in dict.fromkeys(made) if v in self.rows]
        self.again = {v for op in ops for v in self.index.results[program.op_of[op]]}
        self.invariants = [self._invariants(op) for op in (scan.frame.forward, scan.op)]
        self.leaves = self._leaves()
        self.parts = self._parts()

    def _invariants(self, loop: int) -> dict[int, int]:
        """What a loop carries unchanged: for the value outside its number."""
        carried = zip(self.loops.arguments(loop), self.loops.yielded(loop), strict=True)
        return {self.loops.outer(a): k for k, (a, passed) in enumerate(carried) if a == passed}

    def _parts(self) -> list[int]:
        takes_part = self.program.pairing.origins.takes_part
        part_of = {}
        for value, (row, *_) in self.rows.items():
            chain = self._chain([row])
            if not chain.isdisjoint(takes_part):
                part_of[value] = min(chain, key=lambda op: self.index.names[op] != _SLICE)
        split = {part_of[v] for v in self.targets if v in part_of}
        kept = [v for v, slot in part_of.items() if slot in split and v not in self.targets]
        return [v for v in sorted(kept) if can_hand_over(self.index, v, [self.frame])]

    def _leaves(self) -> list[int]:
        found: set[int] = set()
        seen: set[int] = set()
        starts: set[int] = set()  # what leaves are but larger forms of
        todo = list(self.targets)
        while todo:
            value = self.loops.outer(todo.pop())
            if value in seen:
                continue
            seen.add(value)
            smaller = self._smaller(value)
            if value not in starts and not self._is_leaf(value):
                todo += self.index.reads(self.index.definer[value])
            elif smaller is not None and smaller not in seen:
                starts.add(self.loops.outer(smaller))
                todo.append(smaller)
            else:
                found.add(value)
        return sorted(found)

    def _is_leaf(self, value: int) -> bool:
        maker = self.index.definer[value]
        if value in self.again:
            return False
        if maker < 0 or value in self.program.value_of or self._count(value) is not None:
            return True
        return not self._is_inside(value) and maker not in self.program.constants

    def _smaller(self, value: int) -> int | None:
        """What a value that would have to be handed over is but a larger form of."""
        maker = self.index.definer[value]
        is_form = maker >= 0 and self.index.names[maker] in _LARGER
        if not is_form or not self._is_handed_over(value):
            return None
        operand = self.index.operands[maker][0]
        before, after = (size_in_bytes(self.index.values[v].type) for v in (operand, value))
        return operand if before < after else None

    def _is_inside(self, value: int) -> bool:
        return self.index.is_inside(value, self.frame.forward)

    def _count(self, value: int) -> Affine | None:
        """A value as a function of the forward's trip."""
        if self.index.values[value].type != self.slots[0].operands[2].type:
            return None
        function = self.loops.affine(value)
        return function if function and function.loop == self.frame.forward else None

    def _is_handed_over(self, value: int) -> bool:
        return self._is_inside(value) and value not in self.rows and self._count(value) is None

    def check(self) -> None:
        carried = self.invariants[1]
        for value in self.leaves:
            if self._is_handed_over(value):
                can_be_there = can_hand_over(self.index, value, [self.frame])
            else:
                is_there = self._is_inside(value) or value in carried
                can_be_there = is_there or can_carry(self.index, self.frame.backward)
            if not can_be_there:
                raise PlanError(
                    f"{self.label}: a value of type {self.index.values[value].type}, which its "
                    "recompute starts from, can't be handed to the backward loop"
                )

    def write(self, module: ir.Module, symbols: ir.SymbolTable) -> None:
        start = self._move_rows_to_start()
        for value in self.parts:
            self._hand_over_alone(value)
        pairs = [(self.slots[0].operands[2], self.slots[1].operands[1])]
        pairs += [self._pair(value, start) for value in self.leaves]
        targets = [self.index.values[self.rows[v][0]] for v in self.targets]
        attributes = Region(self.label, NothingSaveable(), prevent_cse=False).to_attributes(
            module.context
        )
        forward, backward = zip(*pairs, strict=True)
        last = list(self.slots[0].block.operations)[-1]
        with ir.InsertionPoint(last), start.location:
            build_marker(Kind.ENTER, symbols, module.operation, [], forward, attributes=attributes)
        with ir.InsertionPoint(start), start.location:
            marker = build_marker(
                Kind.BWD_ENTER,
                symbols,
                module.operation,
                [],
                backward,
                [
                    *((v, Decision.SAVE) for v in backward[1:]),
                    *((v, Decision.RECOMPUTE) for v in targets),
                ],
                attributes,
            )
        made = list(marker.results)[len(self.leaves) :]
        for value, result in zip(self.targets, made, strict=True):
            for row in self.rows[value]:
                self.index.values[row].replace_all_uses_except(result, marker)

    def _move_rows_to_start(self) -> ir.Operation:
        """Moves what the recompute starts from, and what it makes, to the start of the backward's
        body; the op that follows."""
        values = [row for v in (*self.leaves, *self.targets) for row in self.rows.get(v, ())]
        assert self.frame.slots is not None
        moved = self._chain([*values, *self.index.results[self.frame.slots[1]]])
        members = self.index.blocks[self.body]
        start = self.index.ops[next(op for op in members if op not in moved)]
        for op in sorted(moved):
            self.index.ops[op].move_before(start)
        return start

    def _chain(self, values: Iterable[int]) -> set[int]:
        """The ops of the backward's body that make `values`."""
        found: set[int] = set()
        todo = list(values)
        while todo:
            op = self.index.in_block(self.index.definer[todo.pop()], self.body)
            if op >= 0 and op not in found:
                found.add(op)
                todo += self.index.reads(op)
        return found

    def _pair(self, leaf: int, start: ir.Operation) -> tuple[ir.Value, ir.Value]:
        """What a leaf is in the body of the forward, and in that of the backward."""
        value = self.index.values[leaf]
        if not self._is_inside(leaf):
            return self._invariant(leaf)
        if leaf in self.rows:
            return value, self.index.values[self.rows[leaf][0]]
        count = self._count(leaf)
        if count is not None:
            with ir.InsertionPoint(start), start.location:
                return value, self._from_row(count)
        return value, self._hand_over(value)

    def _hand_over(self, value: ir.Value) -> ir.Value:
        handed = hand_over(self.index, value, [self.frame])
        self._refresh()
        return handed

    def _hand_over_alone(self, value: int) -> None:
        """Hands a value over in a stack of its own, so that nothing reads the one with the
        targets."""
        handed = self._hand_over(self.index.values[value])
        for row in self.rows[value]:
            self.index.values[row].replace_all_uses_with(handed)
            self.index.values[row] = handed

    def _invariant(self, value: int) -> tuple[ir.Value, ir.Value]:
        forward, backward = (slot.parent.operation for slot in self.slots)  # type: ignore[union-attr]
        number = self.invariants[0].get(value)
        there = self.index.values[value] if number is None else forward.operands[number]
        number = self.invariants[1].get(value)
        if number is not None:
            return there, backward.regions[1].blocks[0].arguments[number]
        argument = carry_into(backward, there)
        self._refresh()
        return there, argument

    def _from_row(self, count: Affine) -> ir.Value:
        """An integer of the forward's trip, from the row that the backward reads of that trip."""
        assert self.frame.slots is not None
        row = self.slots[1].operands[1]
        written = self.loops.affine(self.index.operands[self.frame.slots[0]][2])
        assert written is not None
        scale = count.scale * written.scale
        offset = count.offset - scale * written.offset
        if abs(scale) != 1:
            row = stablehlo.multiply(row, integer(row.type, abs(scale)))
        if scale < 0:
            return stablehlo.subtract(integer(row.type, offset), row)
        if offset < 0:
            return stablehlo.subtract(row, integer(row.type, -offset))
        return stablehlo.add(row, integer(row.type, offset)) if offset else row

    def _refresh(self) -> None:
        """Brings the loops, which were built anew, up to date in the index."""
        for op, slot in zip((self.frame.forward, self.frame.backward), self.slots, strict=True):
            assert slot.parent is not None
            self.index.ops[op] = slot.parent.operation
            for k, v in enumerate(self.index.results[op]):
                self.index.values[v] = self.index.ops[op].results[k]
