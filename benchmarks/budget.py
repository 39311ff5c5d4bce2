# SPDX-License-Identifier: Apache-2.0
"""Training steps without any marker under a memory budget, beside jax.checkpoint placed by hand, in
one run: `python3 benchmarks/budget.py`.

Memory, FLOPs and dots are XLA's; times are medians of interleaved pairs. Every program that is
not ours may use XLA CPU's scheduler that minimises memory too. Exit code 1 where a target is
missed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from budget_models import STEPS, ladder
from budget_side import Case, Hand
from common import MIB, Measured, print_table, print_versions, time_ratio

import hlo_remat

FRACTIONS = (0.9, 0.7, 0.5, 0.35)
HEADER = (
    "model",
    "budget",
    "budget temp MiB",
    "temp MiB",
    "predicted/measured",
    "recompute",
    "time/no remat",
    "best jax.checkpoint that fits",
    "its temp MiB",
    "its recompute",
    "its time/no remat",
    "time ours/its",
    "plan s",
    "compiles",
)


class Targets:
    """What rows were held to and where it was missed; the summary's lines."""

    def __init__(self) -> None:
        self.held: dict[str, list[tuple[str, bool]]] = {}
        self.errors: list[float] = []

    def hold(self, what: str, where: str, is_missed: bool) -> None:
        self.held.setdefault(what, []).append((where, is_missed))

    def print(self) -> int:
        """1 where one was missed."""
        print()
        for what, rows in self.held.items():
            missed = [where for where, is_missed in rows if is_missed]
            places = "; ".join(missed[:8]) + ("; …" if len(missed) > 8 else "")
            print(f"- {what}: {len(missed)} of {len(rows)}" + (f" ({places})" if missed else ""))
        if self.errors:
            middle, worst = statistics.median(self.errors), max(self.errors)
            print(f"- predicted temp off the measured: median {middle:.1%}, worst {worst:.1%}")
        return any(is_missed for rows in self.held.values() for _, is_missed in rows)


def progress(*words: Any) -> None:
    print("...", *words, file=sys.stderr, flush=True)


def ratio(a: Measured, b: Measured, arguments: Sequence[Any], is_timed: bool) -> float | None:
    """The time of `a` over that of `b`; taken again, longer, where it looks slow."""
    if not is_timed:
        return None
    found = time_ratio(a, b, arguments)
    return time_ratio(a, b, arguments, pairs=25) if found > 1.03 else found


def shown(value: float | None) -> Any:
    return "-" if value is None else value


def percent(share: float) -> str:
    return f"{share:.1%}"


def best_hand(case: Case, limit: int, is_timed: bool) -> Hand | None:
    """Of the hand-placed policies within `limit` bytes the fastest, untimed that of least work."""
    fitting = [hand for hand in case.hands if hand.total_bytes <= limit]
    for hand in fitting:
        if is_timed and hand.time is None:
            hand.time = time_ratio(hand.measured, case.plain, case.arguments, pairs=5)
    return min(fitting, key=lambda h: (h.time or 0.0, h.recompute, h.total_bytes), default=None)


def budget_row(
    case: Case, label: str, budget: int | str, is_timed: bool, targets: Targets
) -> tuple[list[Any], int | None]:
    """One row of the table, and the temporaries that XLA needs (None where it is refused)."""
    where = f"{case.name} {label}"
    limit = budget if isinstance(budget, int) else None
    asked = shown((limit - case.fixed_bytes) / MIB if limit else None)
    try:
        plan = hlo_remat.plan(case.lowered, memory_budget=budget)
    except hlo_remat.BudgetError as error:
        hand = best_hand(case, limit or 0, False)
        targets.hold("refused where a jax.checkpoint fits", where, hand is not None)
        found, smallest = "refused", error.smallest
        if smallest:
            least = (smallest.measured_bytes or smallest.predicted_bytes) - case.fixed_bytes
            found += f", least found {least / MIB:.3g}"
        return [case.name, label, asked, found, *["-"] * 10], None
    ours = case.measure_plan(plan)
    total = case.total_bytes(ours)
    temp, predicted = total - case.fixed_bytes, plan.predicted_bytes - case.fixed_bytes
    if limit is None:
        least = min(hand.total_bytes for hand in case.hands)
        targets.hold("rows where a jax.checkpoint needs less than 'min'", where, least < total)
    else:
        targets.hold("rows over their budget", where, total > limit)
        targets.hold("refused where a jax.checkpoint fits", where, False)
    targets.hold("plans that report another memory than XLA", where, case.misreports(plan, ours))
    targets.hold("rows whose gradients differ", where, case.gradient_difference(ours) > 1e-4)
    targets.errors.append(abs(predicted / temp - 1))
    time = ratio(ours, case.plain, case.arguments, is_timed)
    hand = best_hand(case, limit or total, is_timed)
    beside = ratio(ours, hand.measured, case.arguments, is_timed) if hand else None
    if is_timed:
        slower = beside is not None and beside > 1.03
        targets.hold("rows slower by over 3 % than the best jax.checkpoint", where, slower)
    by_hand = (
        [hand.label, hand.temp_mib, percent(hand.recompute), shown(hand.time), shown(beside)]
        if hand
        else ["none fits", "-", "-", "-", "-"]
    )
    row = [
        case.name,
        label,
        asked,
        temp / MIB,
        predicted / temp,
        percent(plan.recompute_flops / case.flops),
        shown(time),
        *by_hand,
        plan.seconds,
        plan.compiles,
    ]
    return row, temp


def budget_rows(case: Case, is_timed: bool, targets: Targets) -> list[list[Any]]:
    rows: list[list[Any]] = [
        [case.name, "none", "-", case.least_temp / MIB, "-", "0.0%", "-", *["-"] * 7]
    ]
    largest = None
    for fraction in (*FRACTIONS, None):
        label = f"{fraction:.0%}" if fraction else "min"
        budget = case.fixed_bytes + int(fraction * case.least_temp) if fraction else "min"
        row, temp = budget_row(case, label, budget, is_timed, targets)
        rows.append(row)
        progress(case.name, *row[1:7])
        if temp is not None:
            rises = largest is not None and temp > largest
            targets.hold("budgets that fall while memory rises", f"{case.name} {label}", rises)
            largest = temp
    return rows


def auto_row(case: Case, is_timed: bool, targets: Targets) -> list[Any]:
    plan = hlo_remat.plan(case.lowered, policy="auto")
    ours = case.measure_plan(plan)
    temp = case.total_bytes(ours) - case.fixed_bytes
    differs = case.gradient_difference(ours) > 1e-4
    targets.hold("rows whose gradients differ", f"{case.name} auto", differs)
    row = [
        case.name,
        case.least_temp / MIB,
        temp / MIB,
        temp / case.least_temp,
        percent(plan.recompute_flops / case.flops),
        shown(ratio(ours, case.plain, case.arguments, is_timed)),
        plan.seconds,
    ]
    progress(*row)
    return row


def undominated(hands: Sequence[Hand]) -> list[Hand]:
    """From least memory to least FLOPs."""
    front: list[Hand] = []
    for hand in sorted(hands, key=lambda h: (h.total_bytes, h.measured.gflop)):
        if not front or hand.measured.gflop < front[-1].measured.gflop:
            front.append(hand)
    return front


def print_ladder(targets: Targets) -> None:
    """Every subset of six names beside our plan at the memory that it takes."""
    step = ladder()
    subsets = [c for n in range(len(step.names) + 1) for c in itertools.combinations(step.names, n)]
    case = Case("ladder", step)
    hands = []
    for names in subsets:
        hands.append(min(case.save_only(names), key=lambda h: h.total_bytes))
        progress("ladder", hands[-1].label, hands[-1].temp_mib, hands[-1].measured.gflop)
    front = undominated(hands)
    ours: dict[int, Measured | None] = {}
    rows: list[list[Any]] = []
    for hand in front:
        try:
            plan = hlo_remat.plan(case.lowered, memory_budget=hand.total_bytes)
        except hlo_remat.BudgetError:
            ours[hand.total_bytes] = None
            rows.append([*hand.cells(), "refused", "-", "-"])
            continue
        ours[hand.total_bytes] = m = case.measure_plan(plan)
        temp = (case.total_bytes(m) - case.fixed_bytes) / MIB
        rows.append([*hand.cells(), temp, m.gflop, m.dots])
        progress("ladder", *rows[-1])
    for hand in hands:
        m, theirs = ours[max(limit for limit in ours if limit <= hand.total_bytes)], hand.measured
        is_over = m is None or case.total_bytes(m) > hand.total_bytes
        is_worse = is_over or m.gflop > theirs.gflop
        targets.hold(
            "hand policies with less memory or fewer FLOPs than ours", hand.label, is_worse
        )
        has_fewer = m is None or m.dots > theirs.dots
        targets.hold("hand policies with fewer dots than ours", hand.label, has_fewer)
    print(f"\n## Ladder: {len(hands)} policies by hand, {len(front)} undominated\n")
    plain = case.plain
    print(f"No remat: {plain.temp_mib:.3g} MiB, {plain.gflop:.3g} GFLOP, {plain.dots} dots.\n")
    columns = ("temp MiB", "GFLOP", "dots")
    print_table(("saved", *columns, *(f"ours {c}" for c in columns)), rows)
    print("\nOur frontier:\n")
    print_table(
        ("predicted temp MiB", "measured temp MiB", "recompute MFLOP"),
        [
            [
                (plan.predicted_bytes - case.fixed_bytes) / MIB,
                shown(plan.measured_bytes and (plan.measured_bytes - case.fixed_bytes) / MIB),
                plan.recompute_flops / 1e6,
            ]
            for plan in hlo_remat.frontier(case.lowered)
        ],
    )


def print_hands(cases: Sequence[Case]) -> None:
    print("\n## jax.checkpoint by hand\n")
    print_table(
        ("model", "policy", "temp MiB", "recompute", "dots", "compile s"),
        [
            [
                c.name,
                h.label,
                h.temp_mib,
                percent(h.recompute),
                h.measured.dots,
                h.measured.compile_s,
            ]
            for c in cases
            for h in c.hands
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(STEPS))
    parser.add_argument("--sections", default="models,auto,ladder")
    parser.add_argument("--by-hand", action="store_true", help="jax.checkpoint's side alone")
    parser.add_argument("--no-timing", action="store_true")
    flags = parser.parse_args()
    sections, is_timed = flags.sections.split(","), not flags.no_timing
    unknown = {*flags.models.split(",")} - {*STEPS} | {*sections} - {"models", "auto", "ladder"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    print_versions()
    chosen = flags.models.split(",")
    if flags.by_hand:
        print_hands([Case(name, STEPS[name]()) for name in chosen])
        return 0
    targets, budgets, auto = Targets(), [], []
    for name in chosen if {"models", "auto"} & {*sections} else ():
        case = Case(name, STEPS[name]())
        if "models" in sections:
            budgets += budget_rows(case, is_timed, targets)
        if "auto" in sections:
            auto.append(auto_row(case, is_timed, targets))
    if budgets:
        print("## Budgets\n")
        print_table(HEADER, budgets)
    if auto:
        print("\n## Auto\n")
        header = (
            "no remat MiB",
            "temp MiB",
            "temp/no remat",
            "recompute",
            "time/no remat",
            "plan s",
        )
        print_table(("model", *header), auto)
    if "ladder" in sections:
        print_ladder(targets)
    return targets.print()


if __name__ == "__main__":
    raise SystemExit(main())
