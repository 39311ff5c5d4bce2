# SPDX-License-Identifier: Apache-2.0
"""What values depend on, through loops and branches: by carry and by result, not by op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from hlo_remat.ir.index import Index

LOOP = "stablehlo.while"
BRANCHES = ("stablehlo.case", "stablehlo.if")
MANUAL = "sdy.manual_computation"
# Ops of which a result may be needed without the others.
SLOTTED = frozenset({LOOP, *BRANCHES, MANUAL})


class Needs:
    """Follows what `add` and `add_op` are given back to what it is made from.

    `ops` are the ops that are needed, and `slots` which carries or results of those that have
    several. Values that `stops` holds for are not followed further; those met are in `stopped`.
    `step` gives the value that one is another name of, if it is.
    """

    def __init__(
        self,
        index: Index,
        stops: Callable[[int], bool] = lambda value: False,
        step: Callable[[int], int | None] = lambda value: None,
    ):
        self.index = index
        self.ops: set[int] = set()
        self.slots: dict[int, set[int]] = defaultdict(set)
        self.stopped: set[int] = set()
        self._stops = stops
        self._step = step
        self._seen: set[int] = set()
        self._todo: list[int] = []

    def add(self, values: Iterable[int]) -> None:
        for v in values:
            if v not in self._seen:
                self._seen.add(v)
                if self._stops(v):
                    self.stopped.add(v)
                else:
                    self._todo.append(v)

    def add_op(self, op: int) -> None:
        if op < 0 or op in self.ops:
            return
        self.ops.add(op)
        self.add_op(self.index.parent[op])
        name = self.index.names[op]
        if name == LOOP:
            condition = self.index.nested_blocks[op][0]
            self.add(self.index.operands[self.index.blocks[condition][-1]])
        elif name in BRANCHES:
            self.add(self.index.operands[op])
        elif name != MANUAL:
            self.add(self.index.operands[op])
            for nested in range(op + 1, self.index.end[op]):
                self.add_op(nested)

    def has(self, value: int) -> bool:
        return value in self._seen

    def finish(self) -> None:
        while self._todo:
            self._add_source(self._todo.pop())

    def _add_source(self, value: int) -> None:
        index = self.index
        op = index.home(value)
        if op < 0:
            return
        same = self._step(value)
        if same is not None:
            self.add([same])
            return
        self.add_op(op)
        if index.names[op] not in SLOTTED:
            return
        if index.definer[value] >= 0:
            self.add_slot(op, index.results[op].index(value))
            return
        block = index.block_of_argument(value)
        number = index.block_arguments[block].index(value)
        if index.names[op] == LOOP:
            self.add_slot(op, number)
        else:
            self.add([index.operands[op][number]])

    def add_slot(self, op: int, number: int) -> None:
        if number in self.slots[op]:
            return
        self.slots[op].add(number)
        if self.index.names[op] == LOOP:
            self.add([self.index.operands[op][number]])
        for block in yielding_blocks(self.index, op):
            self.add([self.index.operands[self.index.blocks[block][-1]][number]])


def yielding_blocks(index: Index, op: int) -> list[int]:
    """The blocks of an op with slots whose terminators give its results."""
    blocks = index.nested_blocks[op]
    return blocks[1:] if index.names[op] == LOOP else blocks
