# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import Literal

from jaxlib import version as jaxlib_version
from jaxlib.mlir import ir

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir import fence
from hlo_remat.ir.backwards import Backwards
from hlo_remat.ir.clone import clone_ops
from hlo_remat.ir.index import nested_ops
from hlo_remat.ir.markers import Kind, Marker, MarkerReader
from hlo_remat.ir.purity import Purity
from hlo_remat.passes.base import Pass, option
from hlo_remat.strategy import choose, parse_version

Strategy = Literal["auto", "optimization-barrier", "call", "case", "while", "none"]
Scope = Literal["auto", "operands", "recompute", "backward"]


@dataclasses.dataclass(frozen=True)
class LowerRecompute(Pass):
    """Fences each recompute so that XLA neither merges it with the forward nor runs it early.

    Every fence holds the cotangents, and the backward goes on from what the fence returns: XLA
    keeps no order that data doesn't force. Regions with `prevent_cse = false` get no fence.

        %ct, %x1, %r = composite "hlo_remat.recompute" %g, %x     ==>
        %ct, %x1 = stablehlo.optimization_barrier %g, %x
        %r = stablehlo.cosine %x1
    """

    name = "hlo-remat-lower-recompute"
    strategy: Strategy = option("auto", "the fence; auto chooses by target and XLA's version")
    scope: Scope = option(
        "auto",
        "what call, case and while hold: the recompute's operands alone, as a barrier does (auto), "
        "the recompute, or the region's backward too",
    )
    target: str = option("cpu", "platform that the module is compiled for: cpu, gpu, ...")
    jaxlib: str = option("", "version of the jaxlib that compiles the module, if not this one")

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        symbols = ir.SymbolTable(module.operation)
        functions = {
            ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
            for view in module.body.operations
            if view.operation.name == "func.func"
        }
        for function in list(functions.values()):
            _Lowerer(self, module, function, functions, symbols, diagnostics).run()

    def choice(self) -> tuple[str, str]:
        """The strategy and the scope of every fence."""
        strategy, scope = str(self.strategy), str(self.scope)
        if strategy == "auto":
            version = parse_version(self.jaxlib or jaxlib_version.__version__)
            strategy = choose(self.target, version)
        if scope == "auto" or strategy in ("optimization-barrier", "none"):
            scope = "operands"
        return strategy, scope


class _Lowerer:
    """The pass on one function."""

    def __init__(
        self,
        options: LowerRecompute,
        module: ir.Module,
        function: ir.Operation,
        functions: dict[str, ir.Operation],
        symbols: ir.SymbolTable,
        diagnostics: Diagnostics,
    ):
        self.strategy, self.scope = options.choice()
        self.module = module
        self.function = function
        self.functions = functions
        self.symbols = symbols
        self.diagnostics = diagnostics

    def run(self) -> None:
        composites = [op for op in nested_ops(self.function) if op.name == "stablehlo.composite"]
        reader = MarkerReader(self.diagnostics)
        markers = [reader.read(op) for op in composites]
        recomputes = [m for m in markers if m is not None and m.kind is Kind.RECOMPUTE]
        if self.diagnostics.errors:
            return
        if self.scope == "backward" and any(any(m.fenced) for m in recomputes):
            self.run_with_backwards()
        else:
            for marker in reversed(recomputes):
                self.lower_alone(marker)

    def run_with_backwards(self) -> None:
        backwards = Backwards(self.function, Purity(self.module))
        # Inner regions first: a fenced backward of an inner region is part of the outer one's.
        for op in sorted(backwards.recomputes, reverse=True):
            marker, inside = backwards.markers[op], backwards.ops_of(op)
            if any(marker.fenced) and inside is not None:
                self.lower_with_backward(backwards, op, inside)
            else:
                self.lower_alone(marker)

    def lower_alone(self, marker: Marker) -> None:
        old = marker.op
        num_values = len(marker.values)
        kept = list(old.operands)[num_values:]
        last = num_values + len(kept)
        held, rest = _held_operands(marker)

        def everything(inside: fence.Values) -> fence.Values:
            return _compat.inline_body(
                self.body(marker), _arguments(marker, inside, rest), old.location
            )

        def made(inside: fence.Values) -> fence.Values:
            results = everything(inside)
            return results[:num_values] + results[last:]

        with ir.InsertionPoint(old), old.location:
            if not any(marker.fenced):
                results = everything(held)
            elif self.scope == "recompute":
                # The kept values need not pass: what a nested computation returns is copied.
                types = [r.type for r in old.results]
                new = self.fence(marker, held, made, types[:num_values] + types[last:])
                results = new[:num_values] + kept + new[num_values:]
            else:
                results = everything(self.fence(marker, held, list, [v.type for v in held]))
        for result, replacement in zip(old.results, results, strict=True):
            result.replace_all_uses_with(replacement)
        old.erase()

    def lower_with_backward(self, backwards: Backwards, op: int, backward: list[int]) -> None:
        index, marker = backwards.index, backwards.markers[op]
        old = marker.op
        captured, outs = backwards.captured(op, backward), backwards.outs(op, backward)
        held, rest = _held_operands(marker)
        count = len(held)
        held += [index.values[v] for v in captured]

        def build(operands: fence.Values) -> fence.Values:
            arguments = _arguments(marker, operands[:count], rest)
            results = _compat.inline_body(self.body(marker), arguments, old.location)
            mapping = dict(zip(index.results[op], results, strict=True))
            mapping.update(zip(captured, operands[count:], strict=True))
            clone_ops(index, backward, mapping)
            return [mapping[v] for v in outs]

        types = [index.values[v].type for v in outs]
        with ir.InsertionPoint(index.ops[backwards.ends[op]]), old.location:
            results = self.fence(marker, held, build, types)
        for v, replacement in zip(outs, results, strict=True):
            index.values[v].replace_all_uses_with(replacement)
        for i in reversed(backward):
            index.ops[i].erase()
        old.erase()

    def body(self, marker: Marker) -> ir.Operation:
        symbol = ir.FlatSymbolRefAttr(marker.op.attributes["decomposition"]).value
        return self.functions[symbol]

    def fence(
        self,
        marker: Marker,
        operands: fence.Values,
        build: fence.Build,
        types: list[ir.Type],
    ) -> fence.Values:
        strategy = self.strategy
        if strategy == "none":
            return build(operands)
        if strategy == "optimization-barrier":
            return fence.barrier(operands, build)
        if strategy == "call":
            return fence.call(operands, build, self.module, self.symbols)
        opaque = fence.opaque_zero_or_one(list(marker.op.operands)[: len(marker.values)])
        if opaque is None:
            self.diagnostics.remark(
                marker.op.location,
                f"no cotangent of region '{marker.label}' has bits for a '{strategy}' fence, so it "
                "gets an optimization_barrier",
            )
            return fence.barrier(operands, build)
        if strategy == "case":
            return fence.case(operands, build, opaque)
        return fence.while_(operands, build, types, opaque)


def _held_operands(marker: Marker) -> tuple[fence.Values, fence.Values]:
    """The operands that the fence holds, and those it doesn't."""
    mask = [True] * len(marker.values) + list(marker.fenced)
    operands = list(zip(marker.op.operands, mask, strict=True))
    return [v for v, held in operands if held], [v for v, held in operands if not held]


def _arguments(marker: Marker, held: fence.Values, rest: fence.Values) -> fence.Values:
    """Puts the operands back together in the order of the recompute's arguments."""
    inside, outside = iter(held), iter(rest)
    mask = [True] * len(marker.values) + list(marker.fenced)
    return [next(inside if is_held else outside) for is_held in mask]
