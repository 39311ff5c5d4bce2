# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections import defaultdict

from jaxlib.mlir import ir

from hlo_remat import policies
from hlo_remat.diagnostics import Diagnostics, note
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.handover import can_hand_over, hand_over
from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.location import describe_location, op_path
from hlo_remat.ir.markers import (
    Decision,
    Kind,
    Marker,
    MarkerError,
    Region,
    build_marker,
)
from hlo_remat.ir.pairing import Pair, Pairing
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.regions import Constants, Forward, forward_of, live_ops, read_markers
from hlo_remat.passes.base import Pass, option
from hlo_remat.policies import Offload, Policy, PolicyError


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
            served: set[int] = set()
            while function.name == "func.func":
                partitioner = _Partitioner(
                    module, function, symbols, purity, diagnostics, policy, served
                )
                if partitioner.run():
                    break


class _Partitioner:
    """The pass on one function."""

    def __init__(
        self,
        module: ir.Module,
        function: ir.Operation,
        symbols: ir.SymbolTable,
        purity: Purity,
        diagnostics: Diagnostics,
        policy: Policy | None,
        served: set[int],
    ):
        self.module = module
        self.symbols = symbols
        self.diagnostics = diagnostics
        self.policy = policy
        self.served = served  # bwd_enters that missing values were handed over to, by hash
        self.index = Index(function)
        self.markers = read_markers(self.index, diagnostics)
        if self.markers:
            self.aliases = Aliases(self.index, self.markers)
            self.impure = purity.impure_ops(self.index)
            self.is_live = live_ops(self.index, self.aliases, self.impure)
            self.constants = Constants(self.index, self.impure)
            self.pairing = Pairing(self.index, self.markers, self.aliases, purity)

    def run(self) -> bool:
        """Partitions the regions that are not yet; False where the function changed so that the
        index is stale, and it must be done again."""
        if self.diagnostics.errors or not self.markers:
            return True
        pairs = self.pairing.pairs()
        # Inner regions' backwards, and backwards of backwards, start later than outer ones'.
        for bwd_enter in sorted(pairs, reverse=True):
            pair = pairs[bwd_enter]
            if self.markers[bwd_enter].decisions:
                continue
            if pair is None:
                self.diagnostics.remark(
                    self.location(bwd_enter),
                    f"no forward is proven to belong to this backward of region "
                    f"'{self.markers[bwd_enter].label}', so its residuals are saved",
                )
                continue
            if not self.partition(pair, bwd_enter):
                return False
        return True

    def location(self, op: int) -> ir.Location:
        return self.index.ops[op].location

    def partition(self, pair: Pair, bwd_enter: int) -> bool:
        try:
            region = self.markers[bwd_enter].region()
        except (MarkerError, PolicyError) as error:
            self.diagnostics.error(self.location(bwd_enter), str(error))
            return True
        if self.policy is not None:
            region = dataclasses.replace(region, policy=self.policy)
        forward = forward_of(self.index, self.aliases, self.pairing, pair, bwd_enter, self.is_live)
        names = self.names_in(forward)
        self.check_names(region, names, pair.enter)
        missing = self.missing(forward, region, names)
        if missing and hash(self.index.ops[bwd_enter]) not in self.served:
            self.served.add(hash(self.index.ops[bwd_enter]))
            for value in missing:
                hand_over(self.index, value, pair.frames)
            return False
        decisions = self.decide(forward, region, names)
        self.report_unused_names(region, names, decisions)
        if decisions:
            self.rewrite(forward, decisions)
        return True

    def missing(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]]
    ) -> list[int]:
        """The values that the policy saves and the recompute would start from, if only the backward
        had them."""
        if forward.in_backward is None:
            return []
        residuals = {self.root(forward, v) for v in forward.residual_uses}
        decisions = self.decide_needed(forward, region, names, residuals, set())
        return [
            value
            for value, decision in sorted(decisions.items())
            if decision is Decision.RECOMPUTE
            and self.index.definer[value] in forward.ops
            and region.policy.decide(
                self.index.ops[self.index.definer[value]], names.get(value, {}).keys()
            )
            is True
            and can_hand_over(self.index, value, forward.frames)
        ]

    # -- names ---------------------------------------------------------------------------------

    def names_in(self, forward: Forward) -> dict[int, dict[str, int]]:
        """Root value -> the names it carries, each with its `name` marker."""
        names: dict[int, dict[str, int]] = defaultdict(dict)
        for op in sorted(forward.ops):
            marker = self.markers.get(op)
            if marker is not None and marker.kind is Kind.NAME:
                names[self.root(forward, self.index.results[op][0])][marker.name] = op
        return names

    def check_names(self, region: Region, names: dict[int, dict[str, int]], enter: int) -> None:
        there = {name for ops in names.values() for name in ops} | set(region.names)
        missing = sorted(region.policy.names - there)
        if missing:
            self.diagnostics.error(
                self.location(enter),
                f"policy {region.policy} of region '{region.label}' speaks of {missing}, but no "
                f"checkpoint_name in the region gives these names; the names there are: "
                f"{sorted(there) or 'none'}",
            )

    def report_unused_names(
        self, region: Region, names: dict[int, dict[str, int]], decisions: dict[int, Decision]
    ) -> None:
        spoken = region.policy.names
        needed = {name for value in decisions for name in names.get(value, ())}
        for value, ops in names.items():
            for name, op in ops.items():
                if name in spoken - needed and region.policy.decide(self.maker(value), {name}):
                    self.diagnostics.remark(
                        self.location(op),
                        f"the value named '{name}' in region '{region.label}' is not needed by the "
                        "backward, so it is not saved",
                    )

    # -- decisions -----------------------------------------------------------------------------

    def root(self, forward: Forward, value: int) -> int:
        """The value of the region, or its raw input, that `value` is another name of."""
        for v in self.aliases.chain(value):
            op = self.index.definer[v]
            if v in forward.inputs:
                return v
            if op not in forward.ops and op != forward.enter:
                return forward.outside(v, self.pairing.origins.loops)
            value = v
        return value

    def maker(self, value: int) -> ir.Operation | None:
        op = self.index.definer[value]
        return self.index.ops[op] if op >= 0 else None

    def decide(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]]
    ) -> dict[int, Decision]:
        """A decision for each value that the backward or the recompute needs."""
        residuals = {self.root(forward, v) for v in forward.residual_uses}
        saved: set[int] = set()
        while True:
            decisions = self.decide_needed(forward, region, names, residuals, saved)
            lost = self.out_of_reach(forward, decisions) & residuals - saved
            if not lost:
                return decisions
            saved |= lost
            for value in sorted(lost):
                self.diagnostics.remark(
                    self.location(self.index.definer[value]),
                    f"this residual of region '{region.label}' is saved: its recompute would need "
                    "a value that the backward can't reach",
                )

    def decide_needed(
        self,
        forward: Forward,
        region: Region,
        names: dict[int, dict[str, int]],
        residuals: set[int],
        saved: set[int],
    ) -> dict[int, Decision]:
        decisions: dict[int, Decision] = {}
        todo = sorted(residuals)
        while todo:
            value = todo.pop()
            op = self.index.definer[value]
            if value in decisions or (op >= 0 and op not in forward.ops and op in self.constants):
                continue
            if value in forward.inputs:
                decisions[value] = Decision.INPUT
            elif value in saved:
                decisions[value] = Decision.SAVE
            else:
                decisions[value] = self.decide_value(forward, region, value, names.get(value, {}))
            if decisions[value] is Decision.RECOMPUTE:
                todo += [self.root(forward, v) for v in self.index.reads(op)]
        return decisions

    def decide_value(
        self, forward: Forward, region: Region, value: int, names: dict[str, int]
    ) -> Decision:
        op = self.index.definer[value]
        if op < 0:
            return Decision.SAVE
        answer = region.policy.decide(self.index.ops[op], names.keys())
        if isinstance(answer, Offload):
            return Decision.OFFLOAD
        if not answer and self.impure[op]:
            self.report_impure(region, op)
        is_there = self.at_backward(forward, value) is not None
        if op not in forward.ops:
            may_recompute = not is_there
        else:
            may_recompute = not (answer and is_there)
        return Decision.RECOMPUTE if may_recompute and not self.impure[op] else Decision.SAVE

    def out_of_reach(self, forward: Forward, decisions: dict[int, Decision]) -> set[int]:
        """The values that the backward has not, and can't make from what it has."""
        lost: set[int] = set()
        if forward.in_backward is None:
            return lost
        for value in sorted(decisions, key=lambda v: (self.index.definer[v], v)):
            if decisions[value] is not Decision.RECOMPUTE:
                if self.at_backward(forward, value) is None:
                    lost.add(value)
                continue
            needs = (self.root(forward, v) for v in self.index.reads(self.index.definer[value]))
            if any(v in lost for v in needs):
                lost.add(value)
        return lost

    def report_impure(self, region: Region, op: int) -> None:
        location = self.location(op)
        self.diagnostics.remark(
            location,
            f"'{self.index.names[op]}' in region '{region.label}' can't be computed twice, so "
            "its result is saved",
            [note(location, f"made by {op_path(location) or describe_location(location)}")],
        )

    def at_backward(self, forward: Forward, value: int) -> int | None:
        """The value that a forward value is where the backward starts, if there is one."""
        handed = forward.at_backward(value)
        if handed is None and self.index.is_visible(value, forward.bwd_enter):
            return value
        return handed

    def operand(self, forward: Forward, value: int) -> ir.Value:
        handed = self.at_backward(forward, value)
        assert handed is not None, "a residual is handed over, or it would be recomputed"
        return self.index.values[handed]

    # -- rewriting -----------------------------------------------------------------------------

    def rewrite(self, forward: Forward, decisions: dict[int, Decision]) -> None:
        """Routes every residual through a new bwd_enter that takes it and its decision."""
        uses: dict[int, list[Use]] = defaultdict(list)
        for value, value_uses in forward.residual_uses.items():
            uses[self.root(forward, value)] += value_uses
        residuals = [
            v for v in sorted(decisions) if v in uses or decisions[v] is not Decision.RECOMPUTE
        ]
        if not residuals:
            return
        op = forward.bwd_enter
        old = self.markers[op]
        with ir.InsertionPoint(self.index.ops[op]), self.location(op):
            new = build_marker(
                Kind.BWD_ENTER,
                self.symbols,
                self.module.operation,
                old.values,
                old.inputs,
                [(self.operand(forward, v), decisions[v]) for v in residuals],
                attributes=old.attributes,
            )
        self.index.replace(op, new, range(len(old.values)))
        self.markers[op] = Marker(new)
        first = len(old.values)
        for k, value in enumerate(residuals):
            for use in uses.get(value, ()):
                self.index.set_operand(use, self.index.results[op][first + k])
