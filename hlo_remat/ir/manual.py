# SPDX-License-Identifier: Apache-2.0
"""One more value out of, or into, an `sdy.manual_computation`.

Each device has a value of its own there. Outside they are one value, the devices' parts along the
first dimension, as JAX hands the residuals of a `shard_map` over.
"""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from hlo_remat.ir.rebuild import rebuild, with_terminator


def can_cross(op: ir.Operation) -> bool:
    """Whether the mesh of a manual computation is known: something else crosses already."""
    return _mesh(op) is not None


def out_of(op: ir.Operation, value: ir.Value) -> ir.Value:
    """What `op` returns for `value`, which is made in its body."""
    block = op.regions[0].blocks[0]
    last = list(block.operations)[-1].operation
    with op.location:
        with ir.InsertionPoint(last):
            value = _as_vector(value)
        with_terminator(block, [*last.operands, value])
        types = [r.type for r in op.results]
        shardings = _shardings(op, "out_shardings")
        whole, sharding = _outside(op, value.type)
        new = rebuild(op, list(op.operands), [*types, whole], [*range(len(types)), None])
        new.attributes["out_shardings"] = sdy.TensorShardingPerValueAttr.get([*shardings, sharding])
    return new.results[-1]


def into(
    op: ir.Operation, whole: ir.Value, type_: ir.Type, result_of: tuple[ir.Operation, int] | None
) -> tuple[ir.Operation, ir.Value]:
    """`op` with `whole` as one more operand, and what its body sees of it, a value of `type_`.

    `whole` is what `out_of` returned, or that result of a manual computation.
    """
    with op.location:
        inside = ir.RankedTensorType(type_)
        vector = type_ if inside.rank else ir.RankedTensorType.get([1], inside.element_type)
        if result_of is None:
            _, sharding = _outside(op, vector)
        else:
            giver, number = result_of
            vector = list(giver.regions[0].blocks[0].operations)[-1].operands[number].type
            sharding = _shardings(giver, "out_shardings")[number]
        block = op.regions[0].blocks[0]
        value: ir.Value = block.add_argument(vector, op.location)
        shardings = _shardings(op, "in_shardings")
        types = [r.type for r in op.results]
        new = rebuild(op, [*op.operands, whole], types, range(len(types)))
        new.attributes["in_shardings"] = sdy.TensorShardingPerValueAttr.get([*shardings, sharding])
        if vector != type_:
            with ir.InsertionPoint.at_block_begin(block):
                value = stablehlo.reshape(type_, value)
    return new, value


def _as_vector(value: ir.Value) -> ir.Value:
    type_ = ir.RankedTensorType(value.type)
    if type_.rank:
        return value
    return stablehlo.reshape(ir.RankedTensorType.get([1], type_.element_type), value)


def _outside(op: ir.Operation, type_: ir.Type) -> tuple[ir.Type, ir.Attribute]:
    """The type outside of what has `type_` in the body, and its sharding."""
    mesh = _mesh(op)
    assert mesh is not None
    axes = [str(axis) for axis in sdy.ManualAxesAttr(op.attributes["manual_axes"])]
    sizes = _axis_sizes(op, mesh)
    inside = ir.RankedTensorType(type_)
    shape = [inside.shape[0] * math.prod(sizes[axis] for axis in axes), *inside.shape[1:]]
    dimensions = [
        sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(a) for a in axes], True),
        *[sdy.DimensionShardingAttr.get([], True)] * (inside.rank - 1),
    ]
    return (
        ir.RankedTensorType.get(shape, inside.element_type),
        sdy.TensorShardingAttr.get(mesh, dimensions),
    )


def _shardings(op: ir.Operation, name: str) -> list[ir.Attribute]:
    return list(sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings)


def _mesh(op: ir.Operation) -> ir.Attribute | None:
    for name in ("in_shardings", "out_shardings"):
        for sharding in _shardings(op, name):
            mesh: ir.Attribute = sdy.TensorShardingAttr(sharding).mesh_or_ref
            return mesh
    return None


def _axis_sizes(op: ir.Operation, mesh: ir.Attribute) -> dict[str, int]:
    if not sdy.MeshAttr.isinstance(mesh):
        module = op
        while module.parent is not None:
            module = module.parent.operation
        symbol = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(mesh).value]
        mesh = symbol.operation.attributes["mesh"]
    axes = (sdy.MeshAxisAttr(axis) for axis in sdy.MeshAttr(mesh).axes)
    return {axis.name: axis.size for axis in axes}
