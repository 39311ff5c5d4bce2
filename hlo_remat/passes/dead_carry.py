# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections import defaultdict

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.index import Index, nested_ops
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.rebuild import rebuild, with_terminator
from hlo_remat.passes.base import Pass

_LOOP = "stablehlo.while"
_BRANCHES = ("stablehlo.case", "stablehlo.if")
_MANUAL = "sdy.manual_computation"
_SLOTTED = frozenset({_LOOP, *_BRANCHES, _MANUAL})


@dataclasses.dataclass(frozen=True)
class DeadCarry(Pass):
    """Removes the carries of loops and the results of branches that nothing needs.

    A carry is needed where the loop's condition, an op with an effect, or a needed result depends
    on it, through any nest of loops and branches; so is a result of a `case`, an `if` or an
    `sdy.manual_computation`. The pure ops that only the others read go with them.

        %r:2 = while(%x, %stack)   ==>   %r = while(%x), where %r#1 is not needed
    """

    name = "hlo-remat-dead-carry"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        purity = Purity(module)
        for view in list(module.body.operations):
            function = view.operation
            if any(op.name in _SLOTTED for op in nested_ops(function)):
                index = Index(function)
                _remove_rest(index, _Needs(index, purity.impure_ops(index)))


class _Needs:
    """Which ops, carries and results the results and the effects of a function depend on."""

    def __init__(self, index: Index, impure: list[bool]):
        self.index = index
        self.live = [False] * len(index.ops)
        self.slots: dict[int, set[int]] = defaultdict(set)  # op -> its carries or results
        self._needed = [False] * len(index.values)
        self._todo: list[int] = []
        for i in range(len(index.ops)):
            if impure[i] or (index.parent[i] < 0 and i == index.blocks[index.block[i]][-1]):
                self._add_op(i)
        while self._todo or self._add_first_slots():
            self._add_source(self._todo.pop())

    def _add_first_slots(self) -> bool:
        """Gives live ops that nothing is needed of one slot: there is none without."""
        for i, name in enumerate(self.index.names):
            if self.live[i] and name in _SLOTTED and self.index.results[i] and not self.slots[i]:
                self._add_slot(i, 0)
        return bool(self._todo)

    def _add_op(self, op: int) -> None:
        if op < 0 or self.live[op]:
            return
        self.live[op] = True
        self._add_op(self.index.parent[op])
        name = self.index.names[op]
        if name == _LOOP:
            condition = self.index.nested_blocks[op][0]
            self._add(self.index.operands[self.index.blocks[condition][-1]])
        elif name in _BRANCHES:
            self._add(self.index.operands[op])
        elif name != _MANUAL:
            self._add(self.index.operands[op])
            for nested in range(op + 1, self.index.end[op]):
                self._add_op(nested)
        # What an op with slots needs otherwise, its slots say.

    def _add(self, values: list[int]) -> None:
        for v in values:
            if not self._needed[v]:
                self._needed[v] = True
                self._todo.append(v)

    def _add_source(self, value: int) -> None:
        index = self.index
        op = index.home(value)
        if op < 0:
            return
        self._add_op(op)
        if index.names[op] not in _SLOTTED:
            return
        if index.definer[value] >= 0:
            self._add_slot(op, index.results[op].index(value))
            return
        block = next(b for b in index.nested_blocks[op] if value in index.block_arguments[b])
        number = index.block_arguments[block].index(value)
        if index.names[op] == _LOOP:
            self._add_slot(op, number)
        else:
            self._add([index.operands[op][number]])

    def _add_slot(self, op: int, number: int) -> None:
        if number in self.slots[op]:
            return
        self.slots[op].add(number)
        if self.index.names[op] == _LOOP:
            self._add([self.index.operands[op][number]])
        for block in _yielding_blocks(self.index, op):
            self._add([self.index.operands[self.index.blocks[block][-1]][number]])


def _yielding_blocks(index: Index, op: int) -> list[int]:
    """The blocks of an op whose terminators give its results."""
    blocks = index.nested_blocks[op]
    return blocks[1:] if index.names[op] == _LOOP else blocks


def _remove_rest(index: Index, needs: _Needs) -> None:
    """From the last op to the first, so that whatever reads a dead value goes before it."""
    yielding = {b for op, kept in needs.slots.items() if kept for b in _yielding_blocks(index, op)}
    for i in range(len(index.ops) - 1, -1, -1):
        parent, block = index.parent[i], index.block[i]
        if parent >= 0 and not needs.live[parent]:
            continue  # goes with its parent
        if i == index.blocks[block][-1]:
            kept = sorted(needs.slots[parent]) if block in yielding else []
            if kept and len(kept) < len(index.operands[i]):
                with_terminator(
                    index.ops[i].block, [index.values[index.operands[i][k]] for k in kept]
                )
        elif not needs.live[i]:
            index.ops[i].erase()
        elif index.names[i] in _SLOTTED and len(needs.slots[i]) < len(index.results[i]):
            _rebuild(index, i, sorted(needs.slots[i]))


def _rebuild(index: Index, i: int, kept: list[int]) -> None:
    op = index.ops[i]
    operands = [index.values[v] for v in index.operands[i]]
    if index.names[i] == _LOOP:
        operands = [operands[k] for k in kept]
        for region in op.regions:
            for k in reversed(range(len(op.results))):
                if k not in kept:
                    region.blocks[0].erase_argument(k)
    rebuild(op, operands, [op.results[k].type for k in kept], kept)
