# SPDX-License-Identifier: Apache-2.0
"""Hands one more value of a forward over to its backward: in a stack from loop to loop, as a result
of a branch."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.ir.fence import zeros
from hlo_remat.ir.index import Index
from hlo_remat.ir.origin import Frame

# Per-result attributes that this file does not know how to lengthen.
_PER_RESULT = ("sdy.sharding_per_value", "mhlo.sharding")


def can_hand_over(index: Index, value: int, frames: Sequence[Frame]) -> bool:
    """Whether `hand_over` can do it: the shape is static and no op on the way is sharded."""
    type_ = index.values[value].type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    ops = [index.ops[i] for frame in frames for i in (frame.forward, frame.backward)]
    return not any(name in op.attributes for op in ops for name in _PER_RESULT)


def hand_over(index: Index, value: int, frames: Sequence[Frame]) -> None:
    """Changes the function so that its backward can read `value`; `index` is stale afterwards.

    Rewrite: while(..., r, ...), while(...) -> while(..., stack(r), ...), while(..., stack, ...)
    """
    handed = index.values[value]
    for frame in reversed(frames):
        handed = _out_of(index, frame, handed)
    for frame in frames:
        if frame.slots is not None:
            handed = _into_loop(index, frame, handed)


def _out_of(index: Index, frame: Frame, value: ir.Value) -> ir.Value:
    op = _around(value)  # not from the index: an earlier value may have made it anew
    with op.location:
        if frame.slots is None:
            return _out_of_branch(op, frame.branch, value)
        return _out_of_loop(op, index.ops[frame.slots[0]], value)


def _around(value: ir.Value) -> ir.Operation:
    """The op in whose block a value is defined."""
    owner = value.owner
    op = owner.owner if isinstance(owner, ir.Block) else owner.operation.parent
    assert op is not None
    return op.operation


def _out_of_loop(loop: ir.Operation, write: ir.Operation, value: ir.Value) -> ir.Value:
    shape = ir.RankedTensorType(value.type)
    trips = ir.RankedTensorType(write.operands[0].type).shape[0]
    stacked = ir.RankedTensorType.get([trips, *shape.shape], shape.element_type)
    with ir.InsertionPoint(loop):
        init = zeros(stacked)
    new, stack = _with_carry(loop, init)
    body = new.regions[1].blocks[0]
    with ir.InsertionPoint(write):  # where the index is known; the value may be made later
        indices = _indices(write.operands[2], shape.rank)
    with ir.InsertionPoint(list(body.operations)[-1]):
        slot = ir.RankedTensorType.get([1, *shape.shape], shape.element_type)
        row = stablehlo.reshape(slot, value)
        stack = stablehlo.dynamic_update_slice(stack, row, indices)
    _pass_on(body, stack)
    return new.results[-1]


def _into_loop(index: Index, frame: Frame, stack: ir.Value) -> ir.Value:
    assert frame.slots is not None
    read = index.ops[frame.slots[1]]
    loop = read.parent
    assert loop is not None
    with loop.location:
        new, argument = _with_carry(loop, stack)
        _pass_on(new.regions[1].blocks[0], argument)
        stacked = ir.RankedTensorType(stack.type)
        with ir.InsertionPoint(read):
            indices = _indices(read.operands[1], stacked.rank - 1)
            row = stablehlo.dynamic_slice(argument, indices, [1, *stacked.shape[1:]])
            inner = ir.RankedTensorType.get(stacked.shape[1:], stacked.element_type)
            return stablehlo.reshape(inner, row)


def _indices(row: ir.Value, rank: int) -> list[ir.Value]:
    if not rank:
        return [row]
    zero = stablehlo.constant(
        ir.DenseElementsAttr.get_splat(
            row.type, ir.IntegerAttr.get(ir.RankedTensorType(row.type).element_type, 0)
        )
    )
    return [row, *[zero] * rank]


def _with_carry(loop: ir.Operation, init: ir.Value) -> tuple[ir.Operation, ir.Value]:
    """The loop with one more carry, and its body's argument for it; the body must pass it on."""
    operands = [*loop.operands, init]
    with ir.InsertionPoint(loop):
        new = stablehlo.WhileOp([v.type for v in operands], operands).operation
    arguments = []
    for old, region in zip(loop.regions, new.regions, strict=True):
        block = old.blocks[0]
        block.append_to(region)
        arguments.append(region.blocks[0].add_argument(init.type, loop.location))
    _replace(loop, new)
    return new, arguments[1]


def _out_of_branch(op: ir.Operation, branch: int | None, value: ir.Value) -> ir.Value:
    """The branching op with one more result: `value`, zeros from the other branches."""
    assert branch is not None
    types = [*(r.type for r in op.results), value.type]
    with ir.InsertionPoint(op):
        if op.name == "stablehlo.if":
            new = stablehlo.IfOp(types, op.operands[0]).operation
        else:
            new = stablehlo.CaseOp(types, op.operands[0], len(op.regions)).operation
    for k, (old, region) in enumerate(zip(op.regions, new.regions, strict=True)):
        block = old.blocks[0]
        block.append_to(region)
        if k == branch:
            _pass_on(region.blocks[0], value)
        else:
            with ir.InsertionPoint(list(region.blocks[0].operations)[-1]):
                filler = zeros(value.type)
            _pass_on(region.blocks[0], filler)
    _replace(op, new)
    return new.results[-1]


def _pass_on(block: ir.Block, value: ir.Value) -> None:
    """Adds an operand to the terminator of a block."""
    last = list(block.operations)[-1].operation
    operands = [*last.operands, value]
    with ir.InsertionPoint(last), last.location:
        stablehlo.return_(operands)
    last.erase()


def _replace(old: ir.Operation, new: ir.Operation) -> None:
    """Puts `new`, which has more results, in the place of `old`."""
    for attribute in old.attributes:
        name = getattr(attribute, "name", attribute)
        if name not in new.attributes:
            new.attributes[name] = old.attributes[name]
    for result, replacement in zip(old.results, list(new.results)[: len(old.results)], strict=True):
        result.replace_all_uses_with(replacement)
    old.erase()
