# SPDX-License-Identifier: Apache-2.0
"""What of a region is saved, and what runs again: its policy asked value by value."""

from __future__ import annotations

import functools
from collections import defaultdict

from jaxlib.mlir import ir

from hlo_remat import policies
from hlo_remat.diagnostics import Diagnostics, note
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index
from hlo_remat.ir.location import describe_location, op_path
from hlo_remat.ir.markers import Decision, Kind, Region
from hlo_remat.ir.needs import SLOTTED, Needs
from hlo_remat.ir.pairing import Pair, Pairing
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.regions import Constants, Forward, forward_of, live_ops, read_markers
from hlo_remat.policies import Offload

_CUTS = frozenset({"stablehlo.slice", "stablehlo.reshape", "stablehlo.transpose"})


class Analysis:
    """What is known of one function; `index` and `markers` are kept in step by who rewrites it."""

    def __init__(self, function: ir.Operation, purity: Purity, diagnostics: Diagnostics):
        self.diagnostics = diagnostics
        self.index = Index(function)
        self.markers = read_markers(self.index, diagnostics)
        self._purity = purity

    @functools.cached_property
    def aliases(self) -> Aliases:
        return Aliases(self.index, self.markers)

    @functools.cached_property
    def impure(self) -> list[bool]:
        return self._purity.impure_ops(self.index)

    @functools.cached_property
    def is_live(self) -> list[bool]:
        return live_ops(self.index, self.aliases, self.impure)

    @functools.cached_property
    def constants(self) -> Constants:
        return Constants(self.index, self.impure)

    @functools.cached_property
    def pairing(self) -> Pairing:
        return Pairing(self.index, self.markers, self.aliases, self._purity)

    def location(self, op: int) -> ir.Location:
        return self.index.ops[op].location

    def maker(self, value: int) -> ir.Operation | None:
        op = self.index.definer[value]
        return self.index.ops[op] if op >= 0 else None


class Decider:
    """Decides for one region, with its forward as its backward sees it.

    `names` gives for a value the names that it carries, each with its `name` marker. `handed` are
    forward values with what the backward can read for them, beside those that it is found to read.
    """

    def __init__(self, analysis: Analysis, pair: Pair, bwd_enter: int, region: Region):
        self.analysis = analysis
        self.index = analysis.index
        self.aliases = analysis.aliases
        self.origins = analysis.pairing.origins
        self.region = region
        self.forward: Forward = forward_of(
            analysis.index,
            analysis.aliases,
            analysis.pairing,
            pair,
            bwd_enter,
            analysis.is_live,
            analysis.constants,
        )
        self.residuals = {self.root(v) for v in self.forward.residual_uses}
        self.names = self._names()

    def _names(self) -> dict[int, dict[str, int]]:
        names: dict[int, dict[str, int]] = defaultdict(dict)
        for i in sorted(self.forward.ops):
            for op in range(i, self.index.end[i]):
                marker = self.analysis.markers.get(op)
                if marker is not None and marker.kind is Kind.NAME:
                    value = self.index.results[op][0]
                    root = self.root(value) if op == i else self.aliases.made(value)
                    names[root][marker.name] = op
        return names

    def root(self, value: int) -> int:
        """The value of the region, or its raw input, that `value` is another name of."""
        for v in self.aliases.chain(value):
            op = self.index.definer[v]
            if v in self.forward.inputs:
                return v
            if op not in self.forward.ops and op != self.forward.enter:
                return self.forward.outside(v, self.origins.loops)
            value = v
        return value

    def wanted(self) -> dict[int, Decision]:
        """The decisions as if the backward could reach everything."""
        return self._decide_needed(set())

    def decide(self) -> dict[int, Decision]:
        """A decision for each value that the backward or the recompute needs."""
        saved: set[int] = set()
        while True:
            decisions = self._decide_needed(saved)
            lost = self._out_of_reach(decisions) & self.residuals - saved
            if not lost:
                return decisions
            saved |= lost
            for value in sorted(lost):
                self.analysis.diagnostics.remark(
                    self.analysis.location(self.index.definer[value]),
                    f"this residual of region '{self.region.label}' is saved: its recompute would "
                    "need a value that the backward can't reach",
                )

    def _decide_needed(self, saved: set[int]) -> dict[int, Decision]:
        """`saved` are values to be saved whatever the policy says."""
        forward = self.forward
        decisions: dict[int, Decision] = {}
        todo = sorted(self.residuals)
        while todo:
            value = todo.pop()
            op = self.index.definer[value]
            is_constant = op not in forward.ops and op in self.analysis.constants
            if value in decisions or (is_constant and value not in self.residuals):
                continue
            if value in forward.inputs:
                decisions[value] = Decision.INPUT
            elif value in saved:
                decisions[value] = Decision.SAVE
            else:
                decisions[value] = self._decide_value(value)
            if decisions[value] is Decision.RECOMPUTE:
                todo += [self.root(v) for v in self.index.reads(op)]
                inside = self.inside(value)
                if inside:
                    handed = self.handed_out(op)
                    todo += {handed[v] for v in inside if v in handed}
        return decisions

    def _decide_value(self, value: int) -> Decision:
        op = self.index.definer[value]
        if op < 0:
            return Decision.SAVE
        answer = self.answer(value)
        is_impure = self.analysis.impure[op]
        if not answer and is_impure:
            self._report_impure(op)
        is_there = self.at_backward(value) is not None
        if op not in self.forward.ops:
            is_cheap = op in self.analysis.constants or self._is_part_of_an_argument(value)
            may_recompute = not is_there or (is_cheap and not answer)
        else:
            may_recompute = not (answer and is_there)
        if may_recompute and not is_impure:
            return Decision.RECOMPUTE
        return Decision.OFFLOAD if isinstance(answer, Offload) else Decision.SAVE

    def _is_part_of_an_argument(self, value: int) -> bool:
        """Whether `value` is cut out of an argument of the function, as what JAX moves out of loops
        often is: the argument is there anyway."""
        while (op := self.index.definer[value]) >= 0:
            if self.index.names[op] not in _CUTS:
                return False
            value = self.index.operands[op][0]
        return self.index.home(value) < 0

    def _out_of_reach(self, decisions: dict[int, Decision]) -> set[int]:
        """The values that the backward has not, and can't make from what it has."""
        lost: set[int] = set()
        if self.forward.in_backward is None:
            return lost
        for value in sorted(decisions, key=lambda v: (self.index.definer[v], v)):
            if decisions[value] is not Decision.RECOMPUTE:
                if self.at_backward(value) is None:
                    lost.add(value)
                continue
            needs = (self.root(v) for v in self.index.reads(self.index.definer[value]))
            if any(v in lost for v in needs):
                lost.add(value)
        return lost

    def inside(self, result: int) -> set[int]:
        """The values that the policy saves or offloads inside of the loop or branching op that
        makes `result`, and that `result` depends on."""
        op = self.index.definer[result]
        if op not in self.forward.ops or self.index.names[op] not in SLOTTED:
            return set()

        def is_saved(value: int) -> bool:
            made = self.aliases.made(value)
            return self.index.definer[made] >= 0 and bool(self.answer(made))

        needs = Needs(self.index, lambda v: not self.index.is_inside(v, op) or is_saved(v))
        needs.add_slot(op, self.index.results[op].index(result))
        needs.finish()
        return {self.aliases.made(v) for v in needs.stopped if self.index.is_inside(v, op)}

    def handed_out(self, op: int) -> dict[int, int]:
        """For each value that is handed out of a loop or a branching op, at any depth, the result
        that it is handed out as."""
        found: dict[int, int] = {}
        for k, result in enumerate(self.index.results[op]):
            for handout in self.origins.handed_out(op, k):
                value = self.aliases.made(handout.value)
                found.setdefault(value, result)
                definer = self.index.definer[value]
                if definer >= 0 and self.index.names[definer] in SLOTTED:
                    nested = self.handed_out(definer)
                    found.update((v, result) for v, r in nested.items() if r == value)
        return found

    def answer(self, value: int) -> policies.Decision:
        """What the policy says of a value; of what a loop or a branch hands out, what it says of
        the value inside."""
        op = self.index.definer[value]
        names = self.names.get(value, {}).keys()
        answer = self.region.policy.decide(self.analysis.maker(value), names)
        if answer or op < 0 or self.index.names[op] not in SLOTTED:
            return answer
        handouts = self.origins.handed_out(op, self.index.results[op].index(value))
        inside = (self.aliases.made(handout.value) for handout in handouts)
        answers = [self.answer(v) for v in inside if self.index.definer[v] >= 0]
        return any(a is True for a in answers) or next((a for a in answers if a), False)

    def _report_impure(self, op: int) -> None:
        location = self.analysis.location(op)
        self.analysis.diagnostics.remark(
            location,
            f"'{self.index.names[op]}' in region '{self.region.label}' can't be computed twice, so "
            "its result is saved",
            [note(location, f"made by {op_path(location) or describe_location(location)}")],
        )

    def at_backward(self, value: int) -> int | None:
        """The value that a forward value is where the backward starts, if there is one."""
        handed = self.forward.at_backward(value)
        if handed is None and self.index.is_visible(value, self.forward.bwd_enter):
            return value
        return handed

    def operand(self, value: int) -> ir.Value:
        handed = self.at_backward(value)
        assert handed is not None, "a residual is handed over, or it would be recomputed"
        return self.index.values[handed]
