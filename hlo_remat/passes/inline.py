# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jaxlib.mlir import ir

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.index import nested_ops
from hlo_remat.passes.base import Pass

_LEAF_DIALECTS = ("stablehlo.", "chlo.", "func.", "sdy.")
_REFERRING = ("stablehlo.composite", "stablehlo.custom_call")


@dataclasses.dataclass(frozen=True)
class Inline(Pass):
    """Inlines every `func.call`, inside the bodies of loops and branches too.

    A call whose `mhlo.frontend_attributes` say `inlineable = "false"` stays, and so do functions
    that something else refers to. Private functions that nothing refers to any more are removed.
    MLIR's own `inline` leaves calls in `stablehlo.while` bodies alone, where JAX puts those of
    scans.

        %0 = func.call @block(%x)   ==>   the ops of @block on %x
    """

    name = "hlo-remat-inline"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op.operation
            for op in module.body.operations
            if op.operation.name == "func.func"
        }
        calls: dict[str, list[ir.Operation]] = {}
        used: set[str] = set()
        for name, function in functions.items():
            ops = nested_ops(function)
            calls[name] = [op for op in ops if op.name == "func.call"]
            used.update(_references(ops))
        order, cycle = _callees_first(calls)
        if cycle is not None:
            diagnostics.error(cycle.location, f"recursive call of '@{_callee(cycle)}'")
            return
        inlined = set()
        for name in order:
            for call in calls[name]:
                callee = _callee(call)
                if callee in functions and _is_inlineable(call, functions[callee]):
                    _inline(call, functions[callee])
                    inlined.add(callee)
                else:
                    used.add(callee)
        for name in reversed(order):
            if name in inlined and name not in used and _is_private(functions[name]):
                functions[name].erase()


def _inline(call: ir.Operation, callee: ir.Operation) -> None:
    with ir.InsertionPoint(call):
        results = _compat.inline_body(callee, list(call.operands), call.location)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.erase()


def _callee(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _is_private(function: ir.Operation) -> bool:
    attributes = function.attributes
    return (
        "sym_visibility" in attributes
        and ir.StringAttr(attributes["sym_visibility"]).value == "private"
    )


def _is_inlineable(call: ir.Operation, callee: ir.Operation) -> bool:
    if "no_inline" in call.attributes or "no_inline" in callee.attributes:
        return False
    if len(callee.regions[0].blocks) != 1:
        return False
    if "mhlo.frontend_attributes" not in call.attributes:
        return True
    frontend = ir.DictAttr(call.attributes["mhlo.frontend_attributes"])
    return "inlineable" not in frontend or ir.StringAttr(frontend["inlineable"]).value != "false"


def _callees_first(
    calls: dict[str, list[ir.Operation]],
) -> tuple[list[str], ir.Operation | None]:
    """Functions in an order in which callees come first; a call that closes a cycle, if any."""
    order: list[str] = []
    state: dict[str, str] = {}
    for root in calls:
        stack = [(root, iter(calls[root]))] if root not in state else []
        state.setdefault(root, "open")
        while stack:
            name, rest = stack[-1]
            call = next(rest, None)
            if call is None:
                stack.pop()
                state[name] = "done"
                order.append(name)
                continue
            callee = _callee(call)
            if state.get(callee) == "open":
                return order, call
            if callee in calls and callee not in state:
                state[callee] = "open"
                stack.append((callee, iter(calls[callee])))
    return order, None


def _references(ops: list[ir.Operation]) -> Iterator[str]:
    """The symbols that ops other than calls refer to."""
    for op in ops:
        if op.name.startswith(_LEAF_DIALECTS) and op.name not in _REFERRING:
            continue
        for attribute in op.attributes:
            yield from _symbols(op.attributes[_name_of(attribute)])


def _name_of(attribute: ir.NamedAttribute | str) -> str:
    return attribute if isinstance(attribute, str) else attribute.name


def _symbols(attribute: ir.Attribute) -> Iterator[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _symbols(element)
