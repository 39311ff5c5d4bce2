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


def impure_ops(index: Index, impure_functions: frozenset[str]) -> list[bool]:
    """For each op whether it, or an op nested in it, is impure."""
    impure = [
        _is_impure(op, name, impure_functions)
        for op, name in zip(index.ops, index.names, strict=True)
    ]
    for i in range(len(impure) - 1, -1, -1):
        parent = index.parent[i]
        if impure[i] and parent >= 0:
            impure[parent] = True
    return impure


def _is_impure(op: ir.Operation, name: str, impure_functions: frozenset[str]) -> bool:
    if name in _IMPURE or not name.startswith(_PURE_DIALECTS):
        return name != "func.call" or _symbol(op, "callee") in impure_functions
    if name == "stablehlo.custom_call":
        attributes = op.attributes
        return "has_side_effect" in attributes and ir.BoolAttr(attributes["has_side_effect"]).value
    if name == "stablehlo.composite":
        return _symbol(op, "decomposition") in impure_functions
    return False


def _symbol(op: ir.Operation, attribute: str) -> str:
    return ir.FlatSymbolRefAttr(op.attributes[attribute]).value


def impure_functions(module: ir.Module) -> frozenset[str]:
    """The names of the functions that have an effect, by themselves or through what they call."""
    impure: set[str] = set()
    callers: dict[str, set[str]] = {}
    for view in module.body.operations:
        function = view.operation
        if function.name != "func.func":
            continue
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if not list(function.regions[0].blocks):
            impure.add(name)
        for op in nested_ops(function):
            if op.name in ("func.call", "stablehlo.composite"):
                symbol = _symbol(op, "callee" if op.name == "func.call" else "decomposition")
                callers.setdefault(symbol, set()).add(name)
            elif _is_impure(op, op.name, frozenset()):
                impure.add(name)
    todo = list(impure)
    while todo:
        new = callers.get(todo.pop(), set()) - impure
        impure |= new
        todo.extend(new)
    return frozenset(impure)
