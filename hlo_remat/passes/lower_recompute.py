# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Literal

from jaxlib import version as jaxlib_version
from jaxlib.mlir import ir

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir import fence
from hlo_remat.ir.clone import clone_ops
from hlo_remat.ir.index import Index
from hlo_remat.ir.markers import Kind, Marker, MarkerError
from hlo_remat.ir.purity import impure_functions, impure_ops
from hlo_remat.ir.regions import read_markers
from hlo_remat.passes.base import Pass, option
from hlo_remat.strategy import Choice, Facts, choose

Strategy = Literal["auto", "optimization-barrier", "call", "case", "while", "none"]
Scope = Literal["auto", "recompute", "backward"]


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
    strategy: Strategy = option(
        "auto", "the fence; auto chooses by region, target and XLA's version"
    )
    scope: Scope = option(
        "auto", "what call, case and while hold: the recompute, or the region's backward too"
    )
    target: str = option("cpu", "platform that the module is compiled for: cpu, gpu, ...")
    jaxlib: str = option("", "version of the jaxlib that compiles the module, if not this one")
    compiler_options: bool = option(
        False, "whoever compiles passes the options that hlo_remat asks for; auto counts on them"
    )

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        symbols = ir.SymbolTable(module.operation)
        impure = impure_functions(module)
        functions = {
            ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
            for view in module.body.operations
            if view.operation.name == "func.func"
        }
        for function in list(functions.values()):
            _Lowerer(self, module, function, functions, impure, symbols, diagnostics).run()

    def facts(self, module: ir.Module, has_convolution: bool) -> Facts:
        attributes = module.operation.attributes
        devices = (
            ir.IntegerAttr(attributes[name]).value
            for name in ("mhlo.num_partitions", "mhlo.num_replicas")
            if name in attributes
        )
        text = self.jaxlib or jaxlib_version.__version__
        return Facts(
            target=self.target,
            jaxlib=tuple(int(part) for part in text.split(".")[:3] if part.isdigit()),
            has_options=self.compiler_options,
            has_convolution=has_convolution,
            is_partitioned=any(n > 1 for n in devices),
        )


class _Lowerer:
    """The pass on one function."""

    def __init__(
        self,
        options: LowerRecompute,
        module: ir.Module,
        function: ir.Operation,
        functions: dict[str, ir.Operation],
        impure: frozenset[str],
        symbols: ir.SymbolTable,
        diagnostics: Diagnostics,
    ):
        self.options = options
        self.module = module
        self.functions = functions
        self.symbols = symbols
        self.diagnostics = diagnostics
        self.index = Index(function)
        self.markers = read_markers(self.index, diagnostics)
        self.impure = impure_ops(self.index, impure)

    def run(self) -> None:
        if self.diagnostics.errors:
            return
        ends = self.backward_ends()
        # Inner regions first: a fenced backward of an inner region is part of the outer one's.
        for op in sorted(self.markers, reverse=True):
            if self.markers[op].kind is Kind.RECOMPUTE:
                try:
                    self.lower(op, ends.get(op))
                except MarkerError as error:
                    self.diagnostics.error(self.index.ops[op].location, str(error))

    def backward_ends(self) -> dict[int, int]:
        """The bwd_exit of each recompute: backwards nest, so the last one opened closes first."""
        ends: dict[int, int] = {}
        opened: dict[tuple[int, str], list[int]] = defaultdict(list)
        for op in sorted(self.markers):
            marker = self.markers[op]
            key = self.index.block[op], marker.label
            if marker.kind in (Kind.RECOMPUTE, Kind.BWD_ENTER):
                opened[key].append(op)
            elif marker.kind is Kind.BWD_EXIT and opened[key]:
                ends[opened[key].pop()] = op
        return ends

    def lower(self, op: int, end: int | None) -> None:
        marker = self.markers[op]
        backward = self.backward_ops(op, end) if end is not None else None
        choice = self.choose(marker, backward)
        if choice.scope == "backward" and backward is not None and end is not None:
            self.lower_with_backward(op, end, backward, choice.strategy)
        else:
            self.lower_alone(op, choice.strategy)

    def choose(self, marker: Marker, backward: list[int] | None) -> Choice:
        if not any(marker.fenced):
            return Choice("none", "recompute")
        nested = (j for i in backward or () for j in range(i, self.index.end[i]))
        convolution = any(self.index.names[j] == "stablehlo.convolution" for j in nested)
        chosen = Choice(self.options.strategy, "recompute")
        if chosen.strategy == "auto":
            chosen = choose(self.options.facts(self.module, convolution))
        if self.options.scope != "auto":
            chosen = dataclasses.replace(chosen, scope=self.options.scope)
        return chosen

    # -- the recompute alone -------------------------------------------------------------------

    def lower_alone(self, op: int, strategy: str) -> None:
        old = self.index.ops[op]
        num_values = len(self.markers[op].values)
        kept = list(old.operands)[num_values:]
        last = num_values + len(kept)
        held, rest = self.held_operands(op)

        def everything(inside: fence.Values) -> fence.Values:
            return _compat.inline_body(
                self.body(op), self.arguments(op, inside, rest), old.location
            )

        def made(inside: fence.Values) -> fence.Values:
            results = everything(inside)
            return results[:num_values] + results[last:]

        with ir.InsertionPoint(old), old.location:
            if strategy in ("optimization-barrier", "none"):
                results = self.fence(op, strategy, held, everything, [])
            else:  # the kept values need not pass: what a nested computation returns is copied
                types = [r.type for r in old.results]
                new = self.fence(op, strategy, held, made, types[:num_values] + types[last:])
                results = new[:num_values] + kept + new[num_values:]
        for result, replacement in zip(old.results, results, strict=True):
            result.replace_all_uses_with(replacement)
        old.erase()

    # -- the recompute with the region's backward ----------------------------------------------

    def backward_ops(self, op: int, end: int) -> list[int] | None:
        """The ops between a recompute and its bwd_exit that the latter depends on.

        None where they can't become one computation: one of them belongs to another region's
        backward, has an effect that must stay in order, or is read before the bwd_exit.
        """
        index = self.index
        block = index.block[op]
        found: set[int] = set()
        todo = list(index.operands[end][: len(self.markers[end].values)])
        while todo:
            definer = index.definer[todo.pop()]
            if definer < 0 or definer in found or definer <= op or index.block[definer] != block:
                continue
            if definer in self.markers and self.markers[definer].kind is not Kind.NAME:
                return None
            found.add(definer)
            todo += index.reads(definer)
        for i in found:
            if self.impure[i]:
                return None
            users = (index.in_block(j, block) for v in index.results[i] for j, _ in index.uses[v])
            if any(user < end and user not in found for user in users):
                return None
        return sorted(found)

    def lower_with_backward(self, op: int, end: int, backward: list[int], strategy: str) -> None:
        index, old = self.index, self.index.ops[op]
        inside = set(backward)
        made = {v for i in backward for v in index.results[i]} | set(index.results[op])
        captured = sorted({v for i in backward for v in index.reads(i)} - made)
        outs = [
            v
            for v in sorted(made)
            if any(index.in_block(j, index.block[op]) not in inside for j, _ in index.uses[v])
        ]
        held, rest = self.held_operands(op)
        count = len(held)
        held += [index.values[v] for v in captured]

        def build(operands: fence.Values) -> fence.Values:
            arguments = self.arguments(op, operands[:count], rest)
            results = _compat.inline_body(self.body(op), arguments, old.location)
            mapping = dict(zip(index.results[op], results, strict=True))
            mapping.update(zip(captured, operands[count:], strict=True))
            clone_ops(index, backward, mapping)
            return [mapping[v] for v in outs]

        with ir.InsertionPoint(index.ops[end]), old.location:
            results = self.fence(op, strategy, held, build, [index.values[v].type for v in outs])
        for v, replacement in zip(outs, results, strict=True):
            index.values[v].replace_all_uses_with(replacement)
        for i in reversed(backward):
            index.ops[i].erase()
        old.erase()

    # -- common --------------------------------------------------------------------------------

    def body(self, op: int) -> ir.Operation:
        symbol = ir.FlatSymbolRefAttr(self.index.ops[op].attributes["decomposition"]).value
        return self.functions[symbol]

    def held_operands(self, op: int) -> tuple[fence.Values, fence.Values]:
        """The operands that the fence holds, and those it doesn't."""
        marker = self.markers[op]
        mask = [True] * len(marker.values) + list(marker.fenced)
        operands = list(zip(self.index.ops[op].operands, mask, strict=True))
        return [v for v, held in operands if held], [v for v, held in operands if not held]

    def arguments(self, op: int, held: fence.Values, rest: fence.Values) -> fence.Values:
        """Puts the operands back together in the order of the recompute's arguments."""
        marker = self.markers[op]
        inside, outside = iter(held), iter(rest)
        mask = [True] * len(marker.values) + list(marker.fenced)
        return [next(inside if is_held else outside) for is_held in mask]

    def fence(
        self,
        op: int,
        strategy: str,
        operands: fence.Values,
        build: fence.Build,
        types: list[ir.Type],
    ) -> fence.Values:
        if strategy == "none":
            return build(operands)
        if strategy == "optimization-barrier":
            return fence.barrier(operands, build)
        if strategy == "call":
            return fence.call(operands, build, self.module, self.symbols)
        opaque = fence.opaque_zero_or_one(
            list(self.index.ops[op].operands)[: len(self.markers[op].values)]
        )
        if opaque is None:
            self.diagnostics.remark(
                self.index.ops[op].location,
                f"no cotangent of region '{self.markers[op].label}' has bits for a '{strategy}' "
                "fence, so it gets an optimization_barrier",
            )
            return fence.barrier(operands, build)
        if strategy == "case":
            return fence.case(operands, build, opaque)
        return fence.while_(operands, build, types, opaque)
