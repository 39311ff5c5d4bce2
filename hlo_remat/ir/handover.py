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
from hlo_remat.ir.rebuild import OPAQUE_PER_RESULT, rebuild, with_terminator


def can_hand_over(index: Index, value: int, frames: Sequence[Frame]) -> bool:
    """Whether `hand_over` can do it: the shape is static, and no op on the way has shardings that
    can't follow."""
    type_ = index.values[value].type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    ops = [index.ops[i] for frame in frames for i in (frame.forward, frame.backward)]
    return not any(OPAQUE_PER_RESULT in op.attributes for op in ops)


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
    arguments = [r.blocks[0].add_argument(init.type, loop.location) for r in loop.regions]
    return _with_result(loop, [*loop.operands, init], init.type), arguments[1]


def _with_result(op: ir.Operation, operands: Sequence[ir.Value], type_: ir.Type) -> ir.Operation:
    """The op with one more result."""
    types = [r.type for r in op.results]
    return rebuild(op, operands, [*types, type_], [*range(len(types)), None])


def _out_of_branch(op: ir.Operation, branch: int | None, value: ir.Value) -> ir.Value:
    """The branching op with one more result: `value`, zeros from the other branches."""
    for k, region in enumerate(op.regions):
        block = region.blocks[0]
        if k == branch:
            _pass_on(block, value)
        else:
            with ir.InsertionPoint(list(block.operations)[-1]):
                filler = zeros(value.type)
            _pass_on(block, filler)
    return _with_result(op, list(op.operands), value.type).results[-1]


def _pass_on(block: ir.Block, value: ir.Value) -> None:
    """Adds an operand to the terminator of a block."""
    with_terminator(block, [*list(block.operations)[-1].operation.operands, value])
