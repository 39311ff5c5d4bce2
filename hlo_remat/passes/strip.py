# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index, nested_ops
from hlo_remat.ir.markers import Kind, Marker, MarkerError, is_marker
from hlo_remat.ir.purity import impure_functions, impure_ops
from hlo_remat.ir.regions import live_ops
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
        for function in functions:
            for op in nested_ops(function):
                if op.name == "stablehlo.composite" and is_marker(op):
                    try:
                        _strip(Marker(op), by_name)
                    except MarkerError as error:
                        diagnostics.error(op.location, str(error))
        impure = impure_functions(module)
        for function in functions:
            _erase_dead(function, impure)


def _strip(marker: Marker, functions: dict[str, ir.Operation]) -> None:
    op = marker.op
    if marker.kind is Kind.RECOMPUTE:
        symbol = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
        with ir.InsertionPoint(op):
            values = _compat.inline_body(functions[symbol], list(op.operands), op.location)
    else:
        values = marker.passed
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def _erase_dead(function: ir.Operation, impure_functions: frozenset[str]) -> None:
    index = Index(function)
    live = live_ops(index, Aliases(index, {}), impure_ops(index, impure_functions))
    for i in range(len(index.ops) - 1, -1, -1):
        parent = index.parent[i]
        if not live[i] and (parent < 0 or live[parent]):
            index.ops[i].erase()
