# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib import version as jaxlib_version
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir import fence
from hlo_remat.ir.index import nested_ops
from hlo_remat.ir.sizes import size_in_bytes
from hlo_remat.passes.base import Pass, option
from hlo_remat.strategy import choose, parse_version

_BROADCAST, _CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.constant"


@dataclasses.dataclass(frozen=True)
class PinBuffers(Pass):
    """Makes the constant buffers that a loop starts with wait for the values that it starts with.

    A loop stacks its residuals into zeros that depend on nothing, so XLA may make those of all
    loops when the program starts, and they are all there at once. Here they depend on the loop's
    other operands, so far as those are computed and not there from the start.

        %z = broadcast_in_dim %zero   ==>   %x1, %zero1 = optimization_barrier %x, %zero
        while(%x, %z)                       %z = broadcast_in_dim %zero1
                                            while(%x1, %z)
    """

    name = "hlo-remat-pin-buffers"
    min_bytes: int = option(65536, "size in bytes from which a buffer is worth a fence")
    target: str = option("cpu", "platform that the module is compiled for: cpu, gpu, ...")
    jaxlib: str = option("", "version of the jaxlib that compiles the module, if not this one")

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        loops = [op for op in nested_ops(module.operation) if op.name == "stablehlo.while"]
        version = parse_version(self.jaxlib or jaxlib_version.__version__)
        strategy = choose(self.target, version)
        symbols = ir.SymbolTable(module.operation)
        for loop in loops:
            operands = list(loop.operands)
            buffers = {k: c for k, v in enumerate(operands) if (c := self.constant(v)) is not None}
            starts = [k for k, v in enumerate(operands) if _is_computed_beside(v, loop)]
            if not buffers or not starts:
                continue
            with ir.InsertionPoint(loop), loop.location:
                scalars = [_scalar(c) for c in buffers.values()]
                held = [*(operands[k] for k in starts), *scalars]
                if strategy == "call":
                    fenced = fence.call(held, list, module, symbols)
                else:
                    fenced = fence.barrier(held, list)
                for k, value in zip(starts, fenced, strict=False):
                    loop.operands[k] = value
                for k, scalar in zip(buffers, fenced[len(starts) :], strict=True):
                    loop.operands[k] = stablehlo.broadcast_in_dim(operands[k].type, scalar, [])

    def constant(self, value: ir.Value) -> ir.DenseElementsAttr | None:
        """The constant whose one element is everywhere in `value`, if that is large."""
        if not isinstance(value, ir.OpResult) or size_in_bytes(value.type) < self.min_bytes:
            return None
        op = value.owner.operation
        if op.name == _BROADCAST and isinstance(op.operands[0], ir.OpResult):
            op = op.operands[0].owner.operation
        if op.name != _CONSTANT:
            return None
        try:
            elements = ir.DenseElementsAttr(op.attributes["value"])
        except ValueError:  # a resource
            return None
        return elements if elements.is_splat else None


def _is_computed_beside(value: ir.Value, loop: ir.Operation) -> bool:
    """Whether an op of the loop's own block computes `value` from more than constants."""
    if not isinstance(value, ir.OpResult):
        return False
    op = value.owner.operation
    if op.block != loop.block or op.name == _CONSTANT:
        return False
    return op.name != _BROADCAST or _is_computed_beside(op.operands[0], loop)


def _scalar(elements: ir.DenseElementsAttr) -> ir.Value:
    type_ = ir.RankedTensorType.get([], ir.RankedTensorType(elements.type).element_type)
    return stablehlo.constant(ir.DenseElementsAttr.get_splat(type_, elements.get_splat_value()))
