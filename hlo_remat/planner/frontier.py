# SPDX-License-Identifier: Apache-2.0
"""`frontier`: plans from the least memory that is found to no recompute at all."""

from __future__ import annotations

from hlo_remat.planner.bounds import structural_minimum
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.plan import Plan
from hlo_remat.planner.simulate import simulate
from hlo_remat.planner.solve import solve


def frontier(graph: Graph, *, points: int = 12, time_limit: float = 60.0) -> list[Plan]:
    """Plans of ever more memory and ever less cost; the last one recomputes nothing.

    Budgets lie evenly between the structural minimum and the peak without recomputing, and each of
    the `points` solves has its share of `time_limit`, in seconds. A plan that another one beats in
    both memory and cost is left out, so that cost falls as memory rises.
    """
    peak, least = simulate(graph).peak, structural_minimum(graph).bytes
    budgets = [least + (peak - least) * i // max(points - 1, 1) for i in range(points)]
    plans = []
    for budget in dict.fromkeys([*budgets, peak]):
        plan = solve(graph, budget, time_limit=time_limit / points)
        if not plan.status.has_plan:  # the least memory that was found is a budget of its own
            plan = solve(graph, plan.peak_bytes, time_limit=time_limit / points)
        if plan.status.has_plan:
            plans.append(plan)
    return undominated(plans)


def undominated(plans: list[Plan]) -> list[Plan]:
    """The plans that no other beats in memory and cost, by memory."""
    best: list[Plan] = []
    for plan in sorted(plans, key=lambda p: (p.peak_bytes, p.extra_cost)):
        if not best or plan.extra_cost < best[-1].extra_cost:
            best.append(plan)
    return best
