# SPDX-License-Identifier: Apache-2.0
"""A function as plain Python lists: one walk over the bindings, then integers only.

Ops and values are numbered in program order, ops in preorder, so that the ops nested in op `i` are
`i + 1` up to, not including, `end[i]`, and `i < j` in one block means that `i` comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

Use = tuple[int, int]  # op, operand number


class Index:
    """Ops, values and uses of a function, kept in step by `replace` and `set_operand`."""

    def __init__(self, function: ir.Operation):
        self.ops: list[ir.Operation] = []
        self.names: list[str] = []
        self.operands: list[list[int]] = []
        self.results: list[list[int]] = []
        self.end: list[int] = []
        self.parent: list[int] = []  # op that the op is nested in, -1 at the top
        self.block: list[int] = []
        self.values: list[ir.Value] = []
        self.definer: list[int] = []  # op of a result; negative for arguments: see home
        self.uses: list[dict[Use, None]] = []  # dictionaries as ordered sets
        self.blocks: list[list[int]] = []  # ops of each block in order
        self.block_arguments: list[list[int]] = []
        self.block_owner: list[int] = []  # op that the block is in, -1 at the top
        self.nested_blocks: dict[int, list[int]] = {}  # blocks of each op that has any
        # By hash, which the bindings take from the address: a lookup by value would compare too.
        self._ids: dict[int, int] = {}
        for region in function.regions:
            self._add_region(region, -1)

    def _add_region(self, region: ir.Region, parent: int) -> None:
        for block in region.blocks:
            number = len(self.blocks)
            members: list[int] = []
            self.blocks.append(members)
            self.block_owner.append(parent)
            self.nested_blocks.setdefault(parent, []).append(number)
            arguments = [self._number(argument) for argument in block.arguments]
            self.block_arguments.append(arguments)
            for v in arguments:
                self.definer[v] = -2 - parent
            for view in block.operations:
                members.append(self._add_op(view.operation, parent, number))

    def _add_op(self, op: ir.Operation, parent: int, block: int) -> int:
        i = len(self.ops)
        self.ops.append(op)
        self.names.append(op.name)
        self.parent.append(parent)
        self.block.append(block)
        ids, uses = self._ids, self.uses
        operands: list[int] = []
        for value in op.operands:
            v = ids.get(hash(value))
            if v is None:
                v = self._number(value)
            uses[v][i, len(operands)] = None
            operands.append(v)
        self.operands.append(operands)
        results = []
        for value in op.results:
            v = self._number(value)
            self.definer[v] = i
            results.append(v)
        self.results.append(results)
        self.end.append(i + 1)
        regions = op.regions
        if len(regions):
            for region in regions:
                self._add_region(region, i)
            self.end[i] = len(self.ops)
        return i

    def _number(self, value: ir.Value) -> int:
        key = hash(value)
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.values)
            self.values.append(value)
            self.definer.append(-1)
            self.uses.append({})
        return number

    def id_of(self, value: ir.Value) -> int:
        return self._ids[hash(value)]

    def in_block(self, op: int, block: int) -> int:
        """The op of `block` that `op` is, or is nested in."""
        while self.block[op] != block:
            op = self.parent[op]
        return op

    def reads(self, op: int) -> Iterator[int]:
        """The values that an op reads: its operands, and what its regions capture."""
        yield from self.operands[op]
        for nested in range(op + 1, self.end[op]):
            for v in self.operands[nested]:
                if not self._is_inside(v, op):
                    yield v

    def is_visible(self, value: int, op: int) -> bool:
        """Whether `value` is defined before `op`, in a block around it."""
        definer = self.definer[value]
        while op >= 0:
            if definer >= 0 and self.block[op] == self.block[definer]:
                return definer < op
            if definer < 0 and value in self.block_arguments[self.block[op]]:
                return True
            op = self.parent[op]
        return False

    def home(self, value: int) -> int:
        """The op that makes a value, or whose block has it as an argument; -1 at the top."""
        definer = self.definer[value]
        return definer if definer >= 0 else -2 - definer

    def _is_inside(self, value: int, op: int) -> bool:
        return op <= self.home(value) < self.end[op]

    def set_operand(self, use: Use, value: int) -> None:
        op, k = use
        del self.uses[self.operands[op][k]][use]
        self.operands[op][k] = value
        self.uses[value][use] = None
        self.ops[op].operands[k] = self.values[value]

    def replace(self, i: int, op: ir.Operation, kept: Sequence[int]) -> None:
        """Puts `op`, built in the place of op `i`, in its stead and erases op `i`.

        Result k of the old op becomes result `kept[k]` of the new one.
        """
        for k, v in enumerate(self.operands[i]):
            del self.uses[v][i, k]
        new_results = [self._number(v) for v in op.results]
        for old, k in zip(self.results[i], kept, strict=True):
            new = new_results[k]
            for use in list(self.uses[old]):
                self.set_operand(use, new)
        self.ops[i].erase()
        self.ops[i], self.names[i], self.results[i] = op, op.name, new_results
        self.operands[i] = [self._number(v) for v in op.operands]
        for k, v in enumerate(self.operands[i]):
            self.uses[v][i, k] = None
        for v in new_results:
            self.definer[v] = i


def nested_ops(op: ir.Operation) -> list[ir.Operation]:
    """The ops in the regions of `op`, at any depth, in preorder."""
    found: list[ir.Operation] = []
    _add_nested(op, found)
    return found


def _add_nested(op: ir.Operation, found: list[ir.Operation]) -> None:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                nested = view.operation
                found.append(nested)
                if len(nested.regions):
                    _add_nested(nested, found)
