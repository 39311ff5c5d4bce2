# SPDX-License-Identifier: Apache-2.0
"""Ops with regions made anew with other operands and results, which can't be changed in place."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

# Shardings of GSPMD: one string for all results.
OPAQUE_PER_RESULT = "mhlo.sharding"


def rebuild(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    sources: Sequence[int | None],
    operand_sources: Sequence[int] | None = None,
) -> ir.Operation:
    """Puts an op with the regions and the attributes of `op` in its place.

    Its results have `types`. Result k is what result `sources[k]` of `op` was; it is new where that
    is None. Operand k is operand `operand_sources[k]`. Attributes that have an element for each
    result or operand follow.
    """
    attributes = {}
    for attribute in op.attributes:
        name = getattr(attribute, "name", attribute)
        attributes[name] = op.attributes[name]
        if name == "in_shardings":
            if operand_sources is not None:
                types_in = [v.type for v in operands]
                attributes[name] = _followed(op.attributes[name], types_in, operand_sources)
        elif sdy.TensorShardingPerValueAttr.isinstance(op.attributes[name]):
            attributes[name] = _followed(op.attributes[name], types, sources)
    with ir.InsertionPoint(op):
        new = ir.Operation.create(
            op.name, types, operands, attributes, regions=len(op.regions), loc=op.location
        )
    for old_region, region in zip(op.regions, new.regions, strict=True):
        for block in list(old_region.blocks):
            block.append_to(region)
    for result, source in zip(new.results, sources, strict=True):
        if source is not None:
            op.results[source].replace_all_uses_with(result)
    op.erase()
    return new


def with_terminator(block: ir.Block, operands: Sequence[ir.Value]) -> None:
    """Gives the terminator of a block other operands."""
    last = list(block.operations)[-1].operation
    names = [getattr(attribute, "name", attribute) for attribute in last.attributes]
    attributes = {name: last.attributes[name] for name in names}
    with ir.InsertionPoint(last):
        ir.Operation.create(last.name, [], operands, attributes, loc=last.location)
    last.erase()


def _followed(
    attribute: ir.Attribute, types: Sequence[ir.Type], sources: Sequence[int | None]
) -> ir.Attribute:
    shardings = list(sdy.TensorShardingPerValueAttr(attribute).shardings)
    return sdy.TensorShardingPerValueAttr.get(
        [
            _open_sharding(shardings[0], type_) if source is None else shardings[source]
            for type_, source in zip(types, sources, strict=True)
        ]
    )


def _open_sharding(like: ir.Attribute, type_: ir.Type) -> ir.Attribute:
    """None yet, on the mesh of another: the partitioner is free to choose."""
    rank = ir.RankedTensorType(type_).rank
    mesh = sdy.TensorShardingAttr(like).mesh_or_ref
    return sdy.TensorShardingAttr.get(mesh, [sdy.DimensionShardingAttr.get([], False)] * rank)
