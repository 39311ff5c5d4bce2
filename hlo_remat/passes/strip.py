# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.dead import erase_dead
from hlo_remat.ir.index import nested_ops
from hlo_remat.ir.markers import Kind, Marker, MarkerReader
from hlo_remat.ir.purity import Purity
from hlo_remat.passes.base import Pass


@dataclasses.dataclass(frozen=True)
class Strip(Pass):
    """Removes what markers are left, and the pure ops that nothing reads any more.

    A marker's results become the operands they are identical to; a recompute that was not lowered
    is inlined without a fence.

        %1 = composite "hlo_remat.exit" %0, %w, %x   ==>   %0
    """

    name = "hlo-remat-strip"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        functions = [v.operation for v in module.body.operations if v.operation.name == "func.func"]
        by_name = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in functions}
        purity, reader = Purity(module), MarkerReader(diagnostics)
        for function in functions:
            composites = [op for op in nested_ops(function) if op.name == "stablehlo.composite"]
            for op in composites:
                marker = reader.read(op)
                if marker is not None:
                    _strip(marker, by_name, purity)


def _strip(marker: Marker, functions: dict[str, ir.Operation], purity: Purity) -> None:
    op = marker.op
    if marker.kind is Kind.RECOMPUTE:
        symbol = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
        with ir.InsertionPoint(op):
            values = _compat.inline_body(functions[symbol], list(op.operands), op.location)
    else:
        values = marker.passed
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    operands = list(op.operands)
    op.erase()
    erase_dead(operands, purity)
