# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from jaxlib.mlir import ir

from hlo_remat import policies
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.decisions import Analysis, Decider
from hlo_remat.ir.handover import bookmark, can_hand_out, can_hand_over, hand_out, hand_over
from hlo_remat.ir.index import Use
from hlo_remat.ir.markers import Decision, Kind, Marker, MarkerError, build_marker
from hlo_remat.ir.needs import SLOTTED
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.unclaimed import Unclaimed
from hlo_remat.passes.base import Pass, option
from hlo_remat.policies import Policy, PolicyError


@dataclasses.dataclass(frozen=True)
class Partition(Pass):
    """Decides for each residual of each region: save, recompute or offload.

    A residual is a value of a region's forward that its backward reads. Of the values that the
    policy lets save, those are saved that the backward or the recompute needs; the rest is
    recomputed from them and from the region's inputs. What can't be computed twice is saved, with
    a remark. Inner regions come first. The decisions are written into the region's
    `hlo_remat.bwd_enter`, which takes the residuals and returns them to the backward.

        %ct = composite "hlo_remat.bwd_enter" %g, %w, %x      ==>
        %ct, %r0, %r1 = composite "hlo_remat.bwd_enter" %g, %w, %x, %x, %cos
                            {decisions = ["input", "recompute"]}
    """

    name = "hlo-remat-partition"
    policy: str = option("", "kind of the policy for every region, instead of the region's own")
    names: tuple[str, ...] = option((), "names for a policy that takes names")

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        try:
            policy = policies.from_name(self.policy, self.names) if self.policy else None
        except PolicyError as error:
            diagnostics.error(module.operation.location, str(error))
            return
        purity = Purity(module)
        symbols = ir.SymbolTable(module.operation)
        for view in list(module.body.operations):
            function = view.operation
            if function.name != "func.func":
                continue
            analysis = Analysis(function, purity, diagnostics)
            if diagnostics.errors or not analysis.markers:
                continue
            pages: _Pages = {}
            if any(name in SLOTTED for name in analysis.index.names):
                if _Partitioner(analysis, policy, pages).hand_out():
                    analysis = Analysis(function, purity, diagnostics)
                if _Partitioner(analysis, policy, pages).hand_over():
                    analysis = Analysis(function, purity, diagnostics)
            else:
                diagnostics.analyses[hash(function)] = analysis
            _Partitioner(analysis, policy, pages).run(module, symbols)


# For each bwd_enter, by its hash, pairs of bookmarks: of a forward value, and of what the bwd_enter
# can read for it.
_Pages = dict[int, list[tuple[ir.Operation, ir.Operation]]]


class _Partitioner:
    """The pass on one function."""

    def __init__(self, analysis: Analysis, policy: Policy | None, pages: _Pages):
        self.analysis = analysis
        self.index = analysis.index
        self.markers = analysis.markers
        self.diagnostics = analysis.diagnostics
        self.policy = policy
        self.pages = pages

    def deciders(self) -> Iterator[Decider]:
        """One for each region whose forward is known, each made when the one before is done with.

        Inner regions' backwards, and backwards of backwards, start later than outer ones'.
        """
        for bwd_enter, pair in sorted(self.analysis.pairing.pairs().items(), reverse=True):
            marker, location = self.markers[bwd_enter], self.analysis.location(bwd_enter)
            if marker.decisions:
                continue
            if pair is None:
                self.diagnostics.remark(
                    location,
                    f"no forward is proven to belong to this backward of region '{marker.label}', "
                    "so its residuals are saved",
                )
                continue
            try:
                region = marker.region()
            except (MarkerError, PolicyError) as error:
                self.diagnostics.error(location, str(error))
                continue
            if self.policy is not None:
                region = dataclasses.replace(region, policy=self.policy)
            decider = Decider(self.analysis, pair, bwd_enter, region)
            for made, read in self.pages.get(hash(self.index.ops[bwd_enter]), ()):
                value, handed = (self.index.id_of(op.operands[0]) for op in (made, read))
                assert decider.forward.in_backward is not None
                decider.forward.in_backward[value] = handed
            yield decider

    # -- making values available ---------------------------------------------------------------

    def hand_out(self) -> bool:
        """Makes results of what policies save inside of loops and branches that are going to run
        again; whether there was something. The index is stale then."""
        loops = self.analysis.pairing.origins.loops
        found: dict[tuple[int, int], str] = {}
        for decider in self.deciders():
            for result, decision in sorted(decider.wanted().items()):
                op = self.index.definer[result]
                if decision is Decision.RECOMPUTE and op in decider.forward.ops:
                    inside = sorted(decider.inside(result) - decider.handed_out(op).keys())
                    found |= {(op, v): decider.region.label for v in inside}
        by_op: dict[int, list[int]] = defaultdict(list)
        for (op, value), label in found.items():
            if can_hand_out(self.index, loops, value, op):
                by_op[op].append(value)
            else:
                self.report_recomputed(value, label, "out of the loops and branches around it")
        # Outer ops first, and of each what is less deep: the result of an op is handed on before
        # something is handed out of that op, which builds it anew.
        for op, values in sorted(by_op.items()):
            hand_out(self.index, loops, sorted(values, key=self.index.depth), op)
        return bool(by_op)

    def report_recomputed(self, value: int, label: str, where: str) -> None:
        self.diagnostics.remark(
            self.analysis.location(self.index.definer[value]),
            f"this value, which the policy of region '{label}' saves, is computed again: it can't "
            f"be handed {where}",
        )

    def hand_over(self) -> bool:
        """Hands over what policies save and recomputes would start from, if their backwards had it;
        whether there was something. The index is stale then."""
        found = []
        for decider in self.deciders():
            forward = decider.forward
            if forward.in_backward is None:
                continue
            for value, decision in sorted(decider.wanted().items()):
                if (
                    decision is Decision.RECOMPUTE
                    and self.index.definer[value] in forward.ops
                    and decider.answer(value)
                ):
                    if can_hand_over(self.index, value, forward.frames):
                        found.append((value, forward))
                    else:
                        self.report_recomputed(value, decider.region.label, "to the backward")
        found.sort(key=lambda pair: self.index.depth(pair[0]))
        marks = [bookmark(self.index.values[value]) for value, _ in found]
        for made, (_, forward) in zip(marks, found, strict=True):
            bwd_enter = self.index.ops[forward.bwd_enter]
            handed = hand_over(self.index, made.results[0], forward.frames)
            read = bookmark(handed, bwd_enter)
            made.results[0].replace_all_uses_with(made.operands[0])
            self.pages.setdefault(hash(bwd_enter), []).append((made, read))
        return bool(found)

    # -- deciding ------------------------------------------------------------------------------

    def run(self, module: ir.Module, symbols: ir.SymbolTable) -> None:
        claimed: dict[int, set[int]] = defaultdict(set)
        for decider in self.deciders():
            self.check_names(decider)
            if decider.forward.frames:
                claimed[self.index.block[decider.forward.bwd_enter]] |= decider.forward.reads
            decisions = decider.decide()
            self.report_unused_names(decider, decisions)
            if decisions:
                self.rewrite(decider, decisions, module, symbols)
        for read, reason in sorted(self.analysis.pairing.origins.unproven.items()):
            self.diagnostics.remark(
                self.analysis.location(read), f"the stack that is read here is saved: {reason}"
            )
        if claimed:
            unclaimed = Unclaimed(self.index, self.analysis.aliases, self.analysis.pairing)
            for block, reads in sorted(claimed.items()):
                for read, reason in sorted(unclaimed.reads(block, reads)):
                    self.diagnostics.remark(
                        self.analysis.location(read), f"what is read here is saved: {reason}"
                    )
        for pairs in self.pages.values():
            for op in (op for pair in pairs for op in pair):
                op.erase()

    def check_names(self, decider: Decider) -> None:
        region = decider.region
        there = {name for ops in decider.names.values() for name in ops} | set(region.names)
        missing = sorted(region.policy.names - there)
        if missing:
            self.diagnostics.error(
                self.analysis.location(decider.forward.enter),
                f"policy {region.policy} of region '{region.label}' speaks of {missing}, but no "
                f"checkpoint_name in the region gives these names; the names there are: "
                f"{sorted(there) or 'none'}",
            )

    def report_unused_names(self, decider: Decider, decisions: dict[int, Decision]) -> None:
        region, names = decider.region, decider.names
        spoken = region.policy.names
        needed = {name for value in decisions for name in names.get(value, ())}
        for value, ops in names.items():
            maker = self.analysis.maker(value)
            for name, op in ops.items():
                if name in spoken - needed and region.policy.decide(maker, {name}):
                    self.diagnostics.remark(
                        self.analysis.location(op),
                        f"the value named '{name}' in region '{region.label}' is not needed by the "
                        "backward, so it is not saved",
                    )

    def rewrite(
        self,
        decider: Decider,
        decisions: dict[int, Decision],
        module: ir.Module,
        symbols: ir.SymbolTable,
    ) -> None:
        """Routes every residual through a new bwd_enter that takes it and its decision."""
        uses: dict[int, list[Use]] = defaultdict(list)
        for value, value_uses in decider.forward.residual_uses.items():
            uses[decider.root(value)] += value_uses
        residuals = [
            v for v in sorted(decisions) if v in uses or decisions[v] is not Decision.RECOMPUTE
        ]
        if not residuals:
            return
        op = decider.forward.bwd_enter
        old = self.markers[op]
        with ir.InsertionPoint(self.index.ops[op]), self.analysis.location(op):
            new = build_marker(
                Kind.BWD_ENTER,
                symbols,
                module.operation,
                old.values,
                old.inputs,
                [(decider.operand(v), decisions[v]) for v in residuals],
                attributes=old.attributes,
            )
        self.index.replace(op, new, range(len(old.values)))
        self.markers[op] = Marker(new)
        first = len(old.values)
        for k, value in enumerate(residuals):
            for use in uses.get(value, ()):
                self.index.set_operand(use, self.index.results[op][first + k])
