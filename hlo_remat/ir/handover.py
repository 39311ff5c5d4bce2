# SPDX-License-Identifier: Apache-2.0
"""Hands values out of loops and branches, in stacks and as results, and into others: from a forward
to its backward, and from a forward to its recompute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.ir import manual
from hlo_remat.ir.fence import zeros
from hlo_remat.ir.index import Index
from hlo_remat.ir.loops import Affine, Loops
from hlo_remat.ir.needs import BRANCHES, LOOP, MANUAL
from hlo_remat.ir.origin import Frame, Origins
from hlo_remat.ir.rebuild import OPAQUE_PER_RESULT, rebuild, with_terminator


def can_hand_over(index: Index, value: int, frames: Sequence[Frame]) -> bool:
    """Whether `hand_over` can do it: the shape is static, and no op on the way has shardings that
    can't follow."""
    return _is_static(index, value) and all(
        _can_cross(index, op) for frame in frames for op in (frame.forward, frame.backward)
    )


def hand_over(index: Index, value: ir.Value, frames: Sequence[Frame]) -> ir.Value:
    """Changes the function so that its backward can read `value`, a bookmark's result, and returns
    what it reads. `index` is stale afterwards.

    Rewrite: while(..., r, ...), while(...) -> while(..., stack(r), ...), while(..., stack, ...)
    """
    handed = value
    inside = []  # its type in each frame
    for frame in reversed(frames):
        inside.append(handed.type)
        if frame.branch is not None:
            handed = _out_of_branches({frame.branch: handed})
        elif frame.slots is None:
            handed = manual.out_of(_around(handed), handed)
        else:
            write = index.ops[frame.slots[0]]
            trips = ir.RankedTensorType(write.operands[0].type).shape[0]
            handed = _out_of_loop(handed, write.operands[2], trips)
    for frame in frames:
        type_ = inside.pop()
        if frame.slots is not None:
            handed = _into_loop(index, frame, handed)
        elif frame.branch is None:
            last = index.blocks[index.nested_blocks[frame.backward][0]][-1]
            backward = index.ops[last].parent
            assert backward is not None
            _, handed = manual.into(backward.operation, handed, type_, None)
    return handed


def bookmark(value: ir.Value, before: ir.Operation | None = None) -> ir.Operation:
    """An op that returns `value`, before `before` or behind what makes the value.

    It stays when the op that makes the value is built anew, and its operand follows.
    """
    owner = value.owner
    if before is not None:
        place = before
    elif isinstance(owner, ir.Block):
        place = next(iter(owner.operations)).operation
    else:
        place = owner.operation
    with ir.InsertionPoint(place), place.location:
        mark = stablehlo.reshape(value.type, value).owner.operation
    if before is None and not isinstance(owner, ir.Block):
        mark.move_after(place)
    return mark


def can_hand_out(index: Index, loops: Loops, value: int, op: int) -> bool:
    """Whether `hand_out` can do it: the shape is static, and each loop on the way counts its trips
    from 0 to a constant."""
    return _is_static(index, value) and all(
        _can_cross(index, parent)
        and (
            index.names[parent] != LOOP
            or (
                block == loops.body(parent)
                and bool(loops.trips(parent))
                and loops.counter(parent) is not None
            )
        )
        for parent, block in _way_out(index, value, op)
    )


def hand_out(index: Index, loops: Loops, values: Iterable[int], op: int) -> None:
    """Changes `op` so that `values`, which are made in its regions, are among its results. `index`
    is stale afterwards. Values of the same type from several branches share a result.

    Rewrite: while(...) { r } -> while(..., stack(r), ...)
    """
    for group in _shared(index, values, op):
        first = group[0]
        way = list(_way_out(index, first, op))
        handed = index.values[first]
        if len(group) > 1:
            blocks = index.nested_blocks[way.pop(0)[0]]
            handed = _out_of_branches(
                {blocks.index(index.home_block(v)): index.values[v] for v in group}
            )
        for parent, block in way:
            if index.names[parent] == LOOP:
                counter, trips = loops.counter(parent), loops.trips(parent)
                assert counter is not None
                assert trips
                number = loops.arguments(parent).index(counter)
                row = _around(handed).regions[1].blocks[0].arguments[number]
                handed = _out_of_loop(handed, row, trips)
            elif index.names[parent] == MANUAL:
                handed = manual.out_of(_around(handed), handed)
            else:
                branch = index.nested_blocks[parent].index(block)
                handed = _out_of_branches({branch: handed})


def _shared(index: Index, values: Iterable[int], op: int) -> list[list[int]]:
    """The values in groups of which each has one from each branch of an op at most."""
    groups: list[list[int]] = []
    open_groups: dict[tuple[int, ir.Type], list[list[int]]] = defaultdict(list)
    for v in values:
        innermost, block = next(_way_out(index, v, op))
        candidates = open_groups[innermost, index.values[v].type]
        if index.names[innermost] in BRANCHES:
            for group in candidates:
                if all(index.home_block(u) != block for u in group):
                    group.append(v)
                    break
            else:
                groups.append([v])
                candidates.append(groups[-1])
        else:
            groups.append([v])
    return groups


def _way_out(index: Index, value: int, op: int) -> Iterator[tuple[int, int]]:
    """The ops around a value up to `op`, from the innermost, each with the block that it is in."""
    block = index.home_block(value)
    while (parent := index.block_owner[block]) >= op:
        yield parent, block
        block = index.block[parent]


def feed(
    index: Index,
    origins: Origins,
    op: int,
    clones: Sequence[ir.Operation],
    result: int,
    leaf: ir.Value,
) -> ir.Operation:
    """Lets a clone of `op` read what `op` handed out as one of its results, `leaf`, instead of
    making it again. `clones` are the clone and the ops nested in it, in preorder. Returns the
    clone: a manual computation is built anew.

    Rewrite: while(...) { r' } -> while(...) { stack[i] }
    """
    clone = clones[0]
    for handout in origins.handed_out(op, result):
        definer = index.definer[handout.value]
        if definer < 0 or not index.is_inside(handout.value, op):
            continue
        maker = clones[definer - op]
        read = leaf
        if index.names[op] == LOOP:
            counter = origins.loops.counter(op)
            if counter is None or handout.row is None:
                continue
            arguments = clone.regions[1].blocks[0].arguments
            argument = arguments[origins.loops.arguments(op).index(counter)]
            with ir.InsertionPoint(maker), maker.location:
                read = _read(leaf, _row(argument, handout.row))
        elif index.names[op] == MANUAL:
            type_ = index.values[handout.value].type
            clone, read = manual.into(clone, leaf, type_, (index.ops[op], result))
        number = index.results[definer].index(handout.value)
        maker.results[number].replace_all_uses_with(read)
        if index.end[definer] > definer + 1:
            nested = clones[definer - op : index.end[definer] - op]
            feed(index, origins, definer, nested, number, read)
    return clone


def _row(counter: ir.Value, row: Affine) -> ir.Value:
    if row.scale != 1:
        counter = stablehlo.multiply(counter, integer(counter.type, row.scale))
    return stablehlo.add(counter, integer(counter.type, row.offset)) if row.offset else counter


def _is_static(index: Index, value: int) -> bool:
    type_ = index.values[value].type
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def _can_cross(index: Index, op: int) -> bool:
    if index.names[op] == MANUAL:
        return manual.can_cross(index.ops[op])
    return OPAQUE_PER_RESULT not in index.ops[op].attributes


def _around(value: ir.Value) -> ir.Operation:
    """The op in whose block a value is defined."""
    owner = value.owner
    op = owner.owner if isinstance(owner, ir.Block) else owner.operation.parent
    assert op is not None
    return op.operation


def _out_of_loop(value: ir.Value, row: ir.Value, trips: int) -> ir.Value:
    """What the loop around `value` returns when each trip writes it into a row of a stack."""
    loop = _around(value)
    shape = ir.RankedTensorType(value.type)
    with loop.location:
        with ir.InsertionPoint(loop):
            init = zeros(ir.RankedTensorType.get([trips, *shape.shape], shape.element_type))
        new, stack = _with_carry(loop, init)
        body = new.regions[1].blocks[0]
        with ir.InsertionPoint(list(body.operations)[-1]):
            slot = ir.RankedTensorType.get([1, *shape.shape], shape.element_type)
            update = stablehlo.reshape(slot, value)
            stack = stablehlo.dynamic_update_slice(stack, update, _indices(row, shape.rank))
        _pass_on(body, stack)
    return new.results[-1]


def _into_loop(index: Index, frame: Frame, stack: ir.Value) -> ir.Value:
    assert frame.slots is not None
    read = index.ops[frame.slots[1]]
    loop = read.parent
    assert loop is not None
    location = loop.location
    argument = carry_into(loop.operation, stack)
    with location, ir.InsertionPoint(read):
        return _read(argument, read.operands[1])


def can_carry(index: Index, loop: int) -> bool:
    """Whether `carry_into` can do it."""
    return _can_cross(index, loop)


def carry_into(loop: ir.Operation, value: ir.Value) -> ir.Value:
    """Lets a loop carry `value` unchanged; its body's argument. The loop is built anew.

    Rewrite: while(...) -> while(..., value)
    """
    with loop.location:
        new, argument = _with_carry(loop, value)
        _pass_on(new.regions[1].blocks[0], argument)
    return argument


def _read(stack: ir.Value, row: ir.Value) -> ir.Value:
    """One row of a stack."""
    stacked = ir.RankedTensorType(stack.type)
    indices = _indices(row, stacked.rank - 1)
    slot = stablehlo.dynamic_slice(stack, indices, [1, *stacked.shape[1:]])
    return stablehlo.reshape(ir.RankedTensorType.get(stacked.shape[1:], stacked.element_type), slot)


def _indices(row: ir.Value, rank: int) -> list[ir.Value]:
    return [row, *[integer(row.type, 0)] * rank] if rank else [row]


def integer(type_: ir.Type, value: int) -> ir.Value:
    """A constant of an integer type, the same everywhere."""
    element = ir.RankedTensorType(type_).element_type
    return stablehlo.constant(
        ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(element, value))
    )


def _with_carry(loop: ir.Operation, init: ir.Value) -> tuple[ir.Operation, ir.Value]:
    """The loop with one more carry, and its body's argument for it; the body must pass it on."""
    arguments = [r.blocks[0].add_argument(init.type, loop.location) for r in loop.regions]
    return _with_result(loop, [*loop.operands, init], init.type), arguments[1]


def _with_result(op: ir.Operation, operands: Sequence[ir.Value], type_: ir.Type) -> ir.Operation:
    """The op with one more result."""
    types = [r.type for r in op.results]
    return rebuild(op, operands, [*types, type_], [*range(len(types)), None])


def _out_of_branches(values: Mapping[int, ir.Value]) -> ir.Value:
    """What the branching op around `values` returns when branch k returns `values[k]`, and zeros
    where it has none."""
    type_ = next(iter(values.values())).type
    op = _around(next(iter(values.values())))
    with op.location:
        for k, region in enumerate(op.regions):
            block = region.blocks[0]
            value = values.get(k)
            if value is None:
                with ir.InsertionPoint(list(block.operations)[-1]):
                    value = zeros(type_)
            _pass_on(block, value)
        return _with_result(op, list(op.operands), type_).results[-1]


def _pass_on(block: ir.Block, value: ir.Value) -> None:
    """Adds an operand to the terminator of a block."""
    with_terminator(block, [*list(block.operations)[-1].operation.operands, value])
