# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections import defaultdict

from jaxlib.mlir import ir

from hlo_remat import policies
from hlo_remat.diagnostics import Diagnostics, note
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.handover import can_hand_out, can_hand_over, hand_out, hand_over
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
from hlo_remat.ir.needs import SLOTTED, Needs
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
            served: set[tuple[str, int]] = set()
            handed: dict[int, list[tuple[ir.Value, ir.Value]]] = {}
            while function.name == "func.func":
                partitioner = _Partitioner(
                    module, function, symbols, purity, diagnostics, policy, served, handed
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
        served: set[tuple[str, int]],
        handed: dict[int, list[tuple[ir.Value, ir.Value]]],
    ):
        self.module = module
        self.symbols = symbols
        self.diagnostics = diagnostics
        self.policy = policy
        self.served = served  # what was handed over or out already, for which bwd_enter
        self.handed = handed  # forward values, and what a bwd_enter can read for them, by its hash
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
        if forward.in_backward is not None:
            for value, handed in self.handed.pop(hash(self.index.ops[bwd_enter]), ()):
                forward.in_backward[self.index.id_of(value)] = self.index.id_of(handed)
        names = self.names_in(forward)
        self.check_names(region, names, pair.enter)
        if self.hand_out_insides(forward, region, names) or self.hand_over_missing(
            forward, region, names
        ):
            return False
        decisions = self.decide(forward, region, names)
        self.report_unused_names(region, names, decisions)
        if decisions:
            self.rewrite(forward, decisions)
        return True

    def is_first(self, what: str, bwd_enter: int) -> bool:
        """Whether this is the first time that something is done for a bwd_enter."""
        key = what, hash(self.index.ops[bwd_enter])
        is_first = key not in self.served
        self.served.add(key)
        return is_first

    def hand_over_missing(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]]
    ) -> bool:
        """Hands over what the policy saves and the recompute would start from, if only the backward
        had it; whether there was something."""
        if forward.in_backward is None:
            return False
        missing = [
            value
            for value, decision in sorted(self.wanted(forward, region, names).items())
            if decision is Decision.RECOMPUTE
            and self.index.definer[value] in forward.ops
            and self.answer(region, value, names) is True
            and can_hand_over(self.index, value, forward.frames)
        ]
        if not missing or not self.is_first("hand over", forward.bwd_enter):
            return False
        self.handed[hash(self.index.ops[forward.bwd_enter])] = [
            (self.index.values[v], hand_over(self.index, v, forward.frames)) for v in missing
        ]
        return True

    def wanted(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]]
    ) -> dict[int, Decision]:
        """The decisions as if the backward could reach everything."""
        residuals = {self.root(forward, v) for v in forward.residual_uses}
        return self.decide_needed(forward, region, names, residuals, set())

    # -- loops and branches in a region --------------------------------------------------------

    def hand_out_insides(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]]
    ) -> bool:
        """Makes results of what the policy saves inside of loops and branches that are going to run
        again; whether there was something."""
        loops = self.pairing.origins.loops
        found = {
            (value, self.index.definer[result])
            for result, decision in self.wanted(forward, region, names).items()
            if decision is Decision.RECOMPUTE
            for value in self.inside(forward, region, names, result)
            if can_hand_out(self.index, loops, value, self.index.definer[result])
        }
        handed = {v for _, op in found for v in self.handed_out(op)}
        rest: dict[int, list[int]] = defaultdict(list)
        for value, op in sorted(found):
            if value not in handed:
                rest[op].append(value)
        if not rest or not self.is_first("hand out", forward.bwd_enter):
            return False
        for op, values in rest.items():
            hand_out(self.index, loops, values, op)
        return True

    def inside(
        self, forward: Forward, region: Region, names: dict[int, dict[str, int]], result: int
    ) -> set[int]:
        """The values that the policy saves inside of the loop or branching op that makes `result`,
        and that `result` depends on."""
        op = self.index.definer[result]
        if op not in forward.ops or self.index.names[op] not in SLOTTED:
            return set()

        def is_saved(value: int) -> bool:
            made = self.aliases.made(value)
            return self.index.definer[made] >= 0 and self.answer(region, made, names) is True

        needs = Needs(self.index, lambda v: not self.index.is_inside(v, op) or is_saved(v))
        needs.add_slot(op, self.index.results[op].index(result))
        needs.finish()
        return {self.aliases.made(v) for v in needs.stopped if self.index.is_inside(v, op)}

    def handed_out(self, op: int) -> dict[int, int]:
        """For each value that is handed out of a loop or a branching op, at any depth, the result
        that it is handed out as."""
        found: dict[int, int] = {}
        for k, result in enumerate(self.index.results[op]):
            for handout in self.pairing.origins.handed_out(op, k):
                value = self.aliases.made(handout.value)
                found.setdefault(value, result)
                definer = self.index.definer[value]
                if definer >= 0 and self.index.names[definer] in SLOTTED:
                    nested = self.handed_out(definer)
                    found.update((v, result) for v, r in nested.items() if r == value)
        return found

    def answer(
        self, region: Region, value: int, names: dict[int, dict[str, int]]
    ) -> policies.Decision:
        """What the policy says of a value; of what a loop or a branch hands out, what it says of
        the value inside."""
        op = self.index.definer[value]
        answer = region.policy.decide(self.maker(value), names.get(value, {}).keys())
        if answer or op < 0 or self.index.names[op] not in SLOTTED:
            return answer
        handouts = self.pairing.origins.handed_out(op, self.index.results[op].index(value))
        inside = (self.aliases.made(handout.value) for handout in handouts)
        return any(
            self.index.definer[v] >= 0 and self.answer(region, v, names) is True for v in inside
        )

    # -- names ---------------------------------------------------------------------------------

    def names_in(self, forward: Forward) -> dict[int, dict[str, int]]:
        """Root value -> the names it carries, each with its `name` marker."""
        names: dict[int, dict[str, int]] = defaultdict(dict)
        for i in sorted(forward.ops):
            for op in range(i, self.index.end[i]):
                marker = self.markers.get(op)
                if marker is not None and marker.kind is Kind.NAME:
                    value = self.index.results[op][0]
                    root = self.root(forward, value) if op == i else self.aliases.made(value)
                    names[root][marker.name] = op
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
                decisions[value] = self.decide_value(forward, region, value, names)
            if decisions[value] is Decision.RECOMPUTE:
                todo += [self.root(forward, v) for v in self.index.reads(op)]
                inside = self.inside(forward, region, names, value)
                if inside:
                    handed = self.handed_out(op)
                    todo += {handed[v] for v in inside if v in handed}
        return decisions

    def decide_value(
        self, forward: Forward, region: Region, value: int, names: dict[int, dict[str, int]]
    ) -> Decision:
        op = self.index.definer[value]
        if op < 0:
            return Decision.SAVE
        answer = self.answer(region, value, names)
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
