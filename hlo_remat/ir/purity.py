# SPDX-License-Identifier: Apache-2.0
"""What may be computed again. An op is pure when running it twice is running it once."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo_remat.ir.index import Index, nested_ops

# StableHLO's ops with side effects or hidden state, by its specification. The bindings do not
# expose the op's memory effects. `rng_bit_generator` is pure: its state is an operand.
_IMPURE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "after_all",
        "create_token",
        "infeed",
        "outfeed",
        "recv",
        "rng",
        "send",
    )
)
_PURE_DIALECTS = ("stablehlo.", "chlo.", "sdy.", "arith.", "func.return", "mhlo.")


class Purity:
    """Which ops of a module are pure. Functions are looked at when something calls them."""

    def __init__(self, module: ir.Module):
        self._functions = {
            ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
            for view in module.body.operations
            if view.operation.name == "func.func"
        }
        self._impure_functions: dict[str, bool] = {}

    def impure_ops(self, index: Index) -> list[bool]:
        """For each op whether it, or an op nested in it, is impure."""
        impure = [self._is_impure(op, n) for op, n in zip(index.ops, index.names, strict=True)]
        for i in range(len(impure) - 1, -1, -1):
            parent = index.parent[i]
            if impure[i] and parent >= 0:
                impure[parent] = True
        return impure

    def is_impure(self, op: ir.Operation) -> bool:
        """Whether an op, or one nested in it, is impure."""
        return self._is_impure(op, op.name) or any(
            self._is_impure(nested, nested.name) for nested in nested_ops(op)
        )

    def _is_impure(self, op: ir.Operation, name: str) -> bool:
        if name == "func.call":
            return self._is_impure_function(op.attributes["callee"])
        if name == "stablehlo.composite":
            return self._is_impure_function(op.attributes["decomposition"])
        if name == "stablehlo.custom_call":
            attributes = op.attributes
            return (
                "has_side_effect" in attributes and ir.BoolAttr(attributes["has_side_effect"]).value
            )
        return name in _IMPURE or not name.startswith(_PURE_DIALECTS)

    def _is_impure_function(self, symbol: ir.Attribute) -> bool:
        name = ir.FlatSymbolRefAttr(symbol).value
        if name not in self._impure_functions:
            self._impure_functions[name] = True  # until proven pure: it may call itself
            function = self._functions.get(name)
            self._impure_functions[name] = (
                function is None
                or not list(function.regions[0].blocks)
                or any(self._is_impure(op, op.name) for op in nested_ops(function))
            )
        return self._impure_functions[name]
