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
        self.values: list[ir.Value] = []
        self.results: list[list[int]] = []
        self.block: list[int] = []
        self.end: list[int] = []
        self.blocks: list[list[int]] = []  # ops of each block in order
        self.block_arguments: list[list[int]] = []
        self.block_owner: list[int] = []  # op that the block is in, -1 at the top
        self.nested_blocks: dict[int, list[int]] = {}  # blocks of each op that has any
        for region in function.regions:
            self._add_region(region, -1)
        # By hash, which the bindings take from the address: a lookup by value would compare too.
        self._ids = {hash(value): v for v, value in enumerate(self.values)}
        self.names = [op.name for op in self.ops]
        ids = self._ids
        self.operands = [[ids[hash(value)] for value in op.operands] for op in self.ops]
        self.parent = [self.block_owner[b] for b in self.block]  # -1 at the top
        self.definer = [-1] * len(self.values)  # op of a result; negative for arguments: see home
        self.uses: list[dict[Use, None]] = [{} for _ in self.values]  # as ordered sets
        for b, arguments in enumerate(self.block_arguments):
            for v in arguments:
                self.definer[v] = -2 - self.block_owner[b]
        for i, (operands, results) in enumerate(zip(self.operands, self.results, strict=True)):
            for v in results:
                self.definer[v] = i
            for k, v in enumerate(operands):
                self.uses[v][i, k] = None

    def _add_region(self, region: ir.Region, parent: int) -> None:
        ops, values = self.ops, self.values
        for block in region.blocks:
            number = len(self.blocks)
            members: list[int] = []
            self.blocks.append(members)
            self.block_owner.append(parent)
            self.nested_blocks.setdefault(parent, []).append(number)
            first = len(values)
            values += block.arguments
            self.block_arguments.append(list(range(first, len(values))))
            for view in block.operations:
                op = view.operation
                i = len(ops)
                members.append(i)
                ops.append(op)
                self.block.append(number)
                first = len(values)
                values += op.results
                self.results.append(list(range(first, len(values))))
                self.end.append(i + 1)
                regions = op.regions
                if len(regions):
                    for nested in regions:
                        self._add_region(nested, i)
                    self.end[i] = len(ops)

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
        """The op of `block` that `op` is, or is nested in; -1 where there is none."""
        while op >= 0 and self.block[op] != block:
            op = self.parent[op]
        return op

    def reads(self, op: int) -> Iterator[int]:
        """The values that an op reads: its operands, and what its regions capture."""
        yield from self.operands[op]
        for nested in range(op + 1, self.end[op]):
            for v in self.operands[nested]:
                if not self.is_inside(v, op):
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

    def depth(self, value: int) -> int:
        """How many ops `value` is nested in."""
        depth, op = 0, self.home(value)
        if self.definer[value] >= 0:
            op = self.parent[op]
        while op >= 0:
            depth, op = depth + 1, self.parent[op]
        return depth

    def block_of_argument(self, value: int) -> int:
        """The block that has `value` as an argument."""
        home = self.home(value)
        return next(b for b in self.nested_blocks[home] if value in self.block_arguments[b])

    def home_block(self, value: int) -> int:
        """The block that a value is made in, or an argument of."""
        definer = self.definer[value]
        return self.block[definer] if definer >= 0 else self.block_of_argument(value)

    def is_inside(self, value: int, op: int) -> bool:
        """Whether `value` is made by an op nested in `op`, or an argument of its blocks."""
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

    def visit(nested: ir.Operation) -> ir.WalkResult:
        found.append(nested)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]
