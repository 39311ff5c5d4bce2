# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import functools
import re

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.clone import clone_ops
from hlo_remat.ir.dead import erase_dead
from hlo_remat.ir.decisions import Analysis
from hlo_remat.ir.handover import feed
from hlo_remat.ir.index import nested_ops
from hlo_remat.ir.location import op_path, with_scope
from hlo_remat.ir.markers import PREFIX, Decision, Kind, Marker, MarkerError, build_recompute
from hlo_remat.ir.purity import Purity
from hlo_remat.passes.base import Pass
from hlo_remat.policies import PolicyError

SCOPE = "rematted_computation"  # what JAX calls it in op names, so profilers group both


@dataclasses.dataclass(frozen=True)
class Recompute(Pass):
    """Clones what each recomputed residual depends on into the backward.

    The clones start from the region's inputs and its saved values. They become the decomposition
    of one `hlo_remat.recompute` composite for each region, which takes the cotangents and those
    values and returns the cotangents, the values and the recomputed residuals. The clones' op
    names say `rematted_computation`.

        %ct, %r = composite "hlo_remat.bwd_enter" %g, %x, %x, %cos
                      {decisions = ["input", "recompute"]}
          ==>
        %ct, %x1, %r = composite "hlo_remat.recompute" %g, %x {decomposition = @recompute.block}
    """

    name = "hlo-remat-recompute"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        symbols = ir.SymbolTable(module.operation)
        purity = Purity(module)
        for view in list(module.body.operations):
            function = view.operation
            if function.name == "func.func":
                analysis = diagnostics.analyses.get(hash(function))
                if analysis is None:
                    analysis = Analysis(function, purity, diagnostics)
                _Recomputer(module, analysis, symbols, purity, diagnostics).run()


class _Recomputer:
    """The pass on one function."""

    def __init__(
        self,
        module: ir.Module,
        analysis: Analysis,
        symbols: ir.SymbolTable,
        purity: Purity,
        diagnostics: Diagnostics,
    ):
        self.module = module
        self.symbols = symbols
        self.diagnostics = diagnostics
        self.index = analysis.index
        self.markers = analysis.markers
        self.aliases = analysis.aliases
        self.pairing = analysis.pairing
        self.purity = purity
        self.released: list[ir.Value] = []
        self.with_scope = functools.cache(with_scope)

    def run(self) -> None:
        if self.diagnostics.errors:
            return
        self.pairs = self.pairing.pairs()
        # From the last to the first: an inner region's values are found through the outer one's.
        for op, marker in sorted(self.markers.items(), reverse=True):
            if marker.kind is not Kind.BWD_ENTER or not self.is_supported(op, marker):
                continue
            if Decision.RECOMPUTE in marker.decisions:
                self.recompute(op, marker)
        # At the end: what an inner region no longer reads an outer one may still clone.
        erase_dead(self.released, self.purity)

    def is_supported(self, op: int, marker: Marker) -> bool:
        for value, decision in zip(marker.residuals, marker.decisions, strict=True):
            if decision is Decision.OFFLOAD:
                self.diagnostics.error(
                    self.index.ops[op].location,
                    f"region '{marker.label}' offloads a value of type {value.type}, which this "
                    "version of hlo_remat can't do; use a policy that saves or recomputes it",
                )
                return False
        return True

    def recompute(self, op: int, marker: Marker) -> None:
        operands = self.index.operands[op]
        first = len(marker.values) + len(marker.inputs)
        residuals = list(zip(operands[first:], marker.decisions, strict=True))
        inputs = operands[len(marker.values) : first]
        forward = self.forward_values(op, inputs, [v for v, _ in residuals])
        targets = [forward[v] for v, d in residuals if d is Decision.RECOMPUTE]
        kept: list[tuple[int, Decision]] = [r for r in residuals if r[1] is not Decision.RECOMPUTE]
        ops, extra = self.slice_of(targets, {forward[v] for v, _ in kept})
        kept += [(v, Decision.SAVE) for v in extra]
        forward.update({v: v for v in extra})
        location = self.index.ops[op].location
        try:
            fenced = self.fenced(marker, inputs, kept)
        except (MarkerError, PolicyError) as error:
            self.diagnostics.error(location, str(error))
            return
        values = [self.index.values[v] for v in operands[: len(marker.values)]]
        leaves = [self.index.values[v] for v, _ in kept]
        with location:
            name = self.outline(marker, values, [forward[v] for v, _ in kept], targets, ops)
            with ir.InsertionPoint(self.index.ops[op]):
                new = build_recompute(
                    name,
                    values,
                    leaves,
                    [self.index.values[v].type for v in targets],
                    [d for _, d in kept],
                    marker.label,
                    fenced,
                )
        self.released += (
            self.index.values[v] for v, _ in residuals if self.index.definer[v] not in self.markers
        )
        # Results: cotangents, then kept values, then recomputed ones, each in their old order.
        places = {Decision.RECOMPUTE: len(values) + len(kept), None: len(values)}
        order = list(range(len(values)))
        for _, decision in residuals:
            group = decision if decision is Decision.RECOMPUTE else None
            order.append(places[group])
            places[group] += 1
        self.index.replace(op, new, order)
        self.markers[op] = Marker(new)

    def fenced(
        self, marker: Marker, inputs: list[int], kept: list[tuple[int, Decision]]
    ) -> list[bool]:
        """For each kept value whether the fence holds it, by the region's prevent_cse."""
        prevent_cse = marker.region().prevent_cse
        if isinstance(prevent_cse, bool):
            return [prevent_cse] * len(kept)
        if len(prevent_cse) != len(marker.inputs):
            raise MarkerError(
                f"'prevent_cse' has {len(prevent_cse)} entries for {len(marker.inputs)} inputs"
            )
        by_input = dict(zip(inputs, prevent_cse, strict=True))
        origin = self.aliases.before_backward
        return [by_input.get(origin(v), True) for v, _ in kept]

    def forward_values(self, op: int, inputs: list[int], residuals: list[int]) -> dict[int, int]:
        """The forward's value that each operand of a bwd_enter is."""
        pair = self.pairs[op]
        if pair is None or not pair.frames:
            return {v: self.aliases.before_backward(v) for v in residuals}
        block = self.index.block[op]
        forward = {}
        for v in residuals:
            entered: dict[int, int] = {}
            for outer in (*self.aliases.backwards_into(v), op):
                enclosing = self.pairs.get(outer)
                if enclosing is not None:
                    given = self.index.operands[enclosing.enter]
                    entered |= zip(self.pairing.inputs(outer), given, strict=True)
            value = self.aliases.before_backward(v)
            origin = self.pairing.origins.of(value, block)
            forward[v] = entered[value] if value in entered else origin.value if origin else value
        return forward

    def resolve(self, value: int, leaves: set[int]) -> int:
        """The leaf, or the value really made by an op, that `value` is another name of."""
        for v in self.aliases.chain(value):
            if v in leaves:
                return v
            value = v
        return self.pairing.origins.loops.outer(value)

    def slice_of(self, targets: list[int], leaves: set[int]) -> tuple[list[int], list[int]]:
        """The ops that make `targets` from `leaves`, in order, and what else they need."""
        ops: set[int] = set()
        extra: list[int] = []
        todo = list(targets)
        while todo:
            value = self.resolve(todo.pop(), leaves)
            op = self.index.definer[value]
            if value in leaves or op in ops:
                continue
            if op < 0:
                leaves.add(value)
                extra.append(value)
            else:
                ops.add(op)
                todo += self.index.reads(op)
        return sorted(ops), extra

    def outline(
        self,
        marker: Marker,
        values: list[ir.Value],
        leaves: list[int],
        targets: list[int],
        ops: list[int],
    ) -> str:
        """Builds the function of the recompute; its name."""
        inputs = [v.type for v in values] + [self.index.values[v].type for v in leaves]
        results = inputs + [self.index.values[v].type for v in targets]
        label = re.sub(r"[^A-Za-z0-9_.$-]", "_", marker.label) or "region"
        with ir.InsertionPoint(self.module.body):
            function = func.FuncOp(
                f"{PREFIX}recompute.{label}", (inputs, results), visibility="private"
            )
        self.symbols.insert(function)
        arguments = list(function.add_entry_block().arguments)
        mapping = dict(zip(leaves, arguments[len(values) :], strict=True))
        known = set(leaves)
        path = op_path(marker.op.location) or ""
        relocate = functools.partial(self.with_scope, scope=SCOPE, path=path)
        with ir.InsertionPoint(function.entry_block):
            clone_ops(self.index, ops, mapping, lambda v: self.resolve(v, known), relocate)
            self.feed(ops, known, mapping)
            recomputed = [mapping[self.resolve(v, known)] for v in targets]
            func.ReturnOp([*arguments, *recomputed])
        return ir.StringAttr(function.operation.attributes["sym_name"]).value

    def feed(self, ops: list[int], leaves: set[int], mapping: dict[int, ir.Value]) -> None:
        """Lets the clones of loops and branches read what kept results hold of their insides."""
        for op in ops:
            results = self.index.results[op]
            kept = [k for k, v in enumerate(results) if v in leaves]
            if kept and self.index.end[op] > op + 1:
                clone = next(mapping[v] for v in results if v not in leaves).owner
                assert isinstance(clone, ir.OpView | ir.Operation)
                clones = [clone.operation, *nested_ops(clone.operation)]
                for k in kept:
                    leaf = mapping[results[k]]
                    clones[0] = feed(self.index, self.pairing.origins, op, clones, k, leaf)
                made = zip(results, clones[0].results, strict=True)
                mapping.update((v, result) for v, result in made if v not in leaves)
