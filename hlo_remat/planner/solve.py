# SPDX-License-Identifier: Apache-2.0
"""`solve`: the cheapest plan for a budget, by whichever solvers suit the graph."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hlo_remat.planner.bounds import recompute_bound, structural_minimum
from hlo_remat.planner.canonical import canonical
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.plan import Plan, Status
from hlo_remat.planner.simulate import Recompute, recompute_cost, simulate
from hlo_remat.planner.solvers import chain_dp, exact, greedy, milp, min_cut, revolve

DEFAULT_SECONDS = 10.0
SMALL = 2_000  # ops
LOCAL_WORK = 50_000  # trials of the local search, times ops, for each second of the limit


def solve(graph: Graph, budget: int, *, time_limit: float = DEFAULT_SECONDS) -> Plan:
    """The cheapest plan found whose peak is at most `budget` bytes.

    Never raises for a budget: where no plan fits, or none is found, the status says so and the
    plan is the one of least memory found. `time_limit` is in seconds; solvers do a fixed amount of
    work where that is less, so that one input gives one plan.
    """
    start = time.monotonic()
    same, unit, highest = canonical(graph)
    search = Search(same, budget // unit, start, time_limit)
    search.run()
    return _plan(graph, budget, search, highest, time.monotonic() - start)


class Search:
    """The best plan so far, and what is known of what no plan can do. `start` is on
    `time.monotonic`'s clock, `limit` in seconds."""

    def __init__(self, graph: Graph, budget: int, start: float, limit: float):
        self.graph = graph
        self.budget = budget
        self.start = start
        self.limit = limit
        self.minimum = structural_minimum(graph)
        self.lower_bound: float | None = None
        self.best: list[Recompute] | None = None
        self.cost = np.inf
        self.smallest: list[Recompute] = []
        self.smallest_peak = simulate(graph).peak
        self.solver = "none"
        self.may_be_exact = True
        self.is_proven = False  # that no plan exists, if there is none

    def offer(self, recomputes: list[Recompute], solver: str) -> bool:
        """Takes a plan if it fits and is cheaper than the best so far; whether it was taken."""
        peak = simulate(self.graph, recomputes).peak
        if peak < self.smallest_peak:
            self.smallest, self.smallest_peak = recomputes, peak
        if peak > self.budget:
            return False
        cost = recompute_cost(self.graph, recomputes)
        if cost >= self.cost:
            return False
        self.best, self.cost, self.solver = recomputes, cost, solver
        return True

    @property
    def is_optimal(self) -> bool:
        bound = self.lower_bound or 0.0
        return self.best is not None and self.cost <= bound + 1e-9 * self.graph.total_cost

    def run(self) -> None:
        """Auto. What it tries, in this order, until the plan is proven best or the time is up:

        | graph | solver |
        | --- | --- |
        | fits as it is | none |
        | up to 14 ops | all there is |
        | uniform chain | revolve |
        | any | minimum cuts at one boundary |
        | has a chain of blocks | the chain's dynamic program |
        | up to 2,000 ops, or no plan yet | greedy eviction |
        | up to 2,000 ops | integer programs over ever more stages |
        | any | local search: leave out what isn't needed |
        """
        graph, budget = self.graph, self.budget
        if self.smallest_peak <= budget:
            self.lower_bound = 0.0
            self.offer([], "none")
            return
        if self.minimum.bytes > budget:
            return
        if self.may_be_exact and exact.is_tiny(graph):
            result = exact.search(graph, budget)
            self.is_proven = result.is_complete
            if result.recomputes is not None:
                self.offer(result.recomputes, "exact")
                self.lower_bound = self.cost
            if result.is_complete:
                return
        chain = revolve.search(graph, budget)
        if chain is not None:
            recomputes, self.lower_bound = chain
            self.offer(recomputes, "revolve")
            return
        is_small = len(graph.ops) <= SMALL
        bound = recompute_bound(graph, budget, 0.3 * self.limit)
        self.lower_bound = bound.cost if bound else None
        min_cut.search(graph, budget, self.until(0.5), self.taker("min-cut"))
        if not self.is_optimal:
            chain_dp.search(graph, budget, self.until(0.7), self.taker("chain-dp"))
        if not self.is_optimal and (is_small or self.best is None):
            self.offer(greedy.evict(graph, budget, [], self.until(0.8)), "greedy")
        if not self.is_optimal and is_small:
            work = milp.WORK * self.limit
            milp.search(graph, budget, work, self.until(0.95), self.taker("milp"))
        if not self.is_optimal and self.best is not None:
            trials = int(LOCAL_WORK * self.limit / len(graph.ops))
            better = greedy.drop_needless(graph, budget, self.best, trials, self.until(0.97))
            self.offer(better, f"{self.solver}, local search")

    def until(self, share: float) -> float:
        """The time at which that share of the limit is used up."""
        return self.start + share * self.limit

    def taker(self, solver: str) -> Callable[[list[Recompute]], bool]:
        """Takes a solver's plans; returns whether no better one can be."""

        def take(recomputes: list[Recompute]) -> bool:
            self.offer(recomputes, solver)
            return self.is_optimal

        return take

    @property
    def status(self) -> Status:
        if self.best is not None:
            return Status.OPTIMAL if self.is_optimal else Status.FEASIBLE
        is_impossible = self.is_proven or self.minimum.bytes > self.budget
        return Status.IMPOSSIBLE if is_impossible else Status.NOT_FOUND


def _plan(graph: Graph, budget: int, search: Search, highest: float, seconds: float) -> Plan:
    """What the search in canonical units found, in the graph's own."""
    recomputes = search.smallest if search.best is None else search.best
    execution = simulate(graph, recomputes)
    at = execution.peak_run
    minimum = structural_minimum(graph)
    cost = recompute_cost(graph, recomputes)
    bound = search.lower_bound
    if bound is not None:
        bound *= highest
        if search.best is not None:
            bound = cost if search.is_optimal else min(bound, cost)
    return Plan(
        budget_bytes=budget,
        recomputes=tuple(recomputes),
        peak_bytes=execution.peak,
        peak_op=graph.describe(int(execution.sequence[at])) if graph.ops else "nothing",
        live=tuple((graph.values[v].name or f"value {v}", b) for v, b in execution.live(at)),
        extra_cost=cost,
        total_cost=graph.total_cost,
        lower_bound=bound,
        structural_minimum_bytes=minimum.bytes,
        structural_minimum_op=graph.describe(minimum.op) if graph.ops else "nothing",
        status=search.status,
        solver=search.solver,
        seconds=seconds,
    )
