# SPDX-License-Identifier: Apache-2.0
"""Plans against all plans, and what must hold of every plan."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from graphs import (
    all_plans,
    programs,
    residual_chain,
    training_chain,
    training_graphs,
    transformer,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hlo_remat.planner import (
    Graph,
    Op,
    Recompute,
    Status,
    Value,
    simulate,
    solve,
    structural_minimum,
)
from hlo_remat.planner.bounds import recompute_bound
from hlo_remat.planner.simulate import recompute_cost
from hlo_remat.planner.solve import Search
from hlo_remat.planner.solvers import exact


def _search(graph: Graph, budget: int) -> Search:
    """A solve without the solver for tiny graphs."""
    search = Search(graph, budget, time.monotonic(), 2.0)
    search.may_be_exact = False
    search.run()
    return search


@settings(max_examples=400, deadline=None)
@given(programs(most_ops=5), st.integers(0, 25))
def test_tiny_programs_are_solved_as_well_as_by_all_plans(graph: Graph, budget: int) -> None:
    assume(exact.is_tiny(graph))
    plan = solve(graph, budget)
    fitting = [r for r in all_plans(graph, 3) if simulate(graph, r).peak <= budget]
    if not fitting:
        assert plan.status in (Status.IMPOSSIBLE, Status.OPTIMAL)
        if plan.status is Status.OPTIMAL:
            assert len(plan.recomputes) > 3
        return
    assert plan.status is Status.OPTIMAL
    assert plan.peak_bytes <= budget
    assert plan.extra_cost <= min(recompute_cost(graph, r) for r in fitting)


@settings(max_examples=300, deadline=None)
@given(training_graphs(), st.data())
def test_other_solvers_keep_to_the_budget_and_never_beat_the_optimum(
    graph: Graph, data: st.DataObject
) -> None:
    peak = simulate(graph).peak
    budget = data.draw(st.integers(structural_minimum(graph).bytes, max(peak, 1)))
    optimum = solve(graph, budget)
    search = _search(graph, budget)
    if search.best is not None:
        assert simulate(graph, search.best).peak <= budget
        assert search.cost >= optimum.extra_cost - 1e-9
    else:
        assert search.status is Status.NOT_FOUND
    if search.lower_bound is not None and optimum.status is Status.OPTIMAL:
        assert search.lower_bound <= optimum.extra_cost + 1e-6


@settings(max_examples=200, deadline=None)
@given(programs(), st.data())
def test_no_plan_is_below_the_structural_minimum(graph: Graph, data: st.DataObject) -> None:
    minimum = structural_minimum(graph)
    for _ in range(5):
        again = [i for i, op in enumerate(graph.ops[:-1]) if op.is_recomputable]
        assume(again)
        count = data.draw(st.integers(0, 4))
        recomputes = sorted(
            Recompute(data.draw(st.integers(op + 1, len(graph.ops) - 1)), op)
            for op in (data.draw(st.sampled_from(again)) for _ in range(count))
        )
        assert simulate(graph, recomputes).peak >= minimum.bytes


@settings(max_examples=300, deadline=None)
@given(programs(), st.integers(0, 20))
def test_no_plan_costs_less_than_the_recompute_bound(graph: Graph, budget: int) -> None:
    assume(exact.is_tiny(graph))
    result = exact.search(graph, budget)
    bound = recompute_bound(graph, budget)
    if bound is not None and result.recomputes is not None:
        assert bound.cost <= recompute_cost(graph, result.recomputes) + 1e-6


@settings(max_examples=60, deadline=None)
@given(training_graphs(most=6))
def test_cost_falls_as_the_budget_rises(graph: Graph) -> None:
    costs = []
    for budget in range(structural_minimum(graph).bytes, simulate(graph).peak + 1):
        plan = solve(graph, budget)
        costs.append(plan.extra_cost if plan.status.has_plan else np.inf)
    assert costs == sorted(costs, reverse=True)


def _scaled(graph: Graph, size: int, cost: float) -> Graph:
    values = tuple(dataclasses.replace(v, bytes=v.bytes * size) for v in graph.values)
    ops = tuple(
        dataclasses.replace(op, cost=op.cost * cost, workspace=op.workspace * size)
        for op in graph.ops
    )
    return dataclasses.replace(graph, values=values, ops=ops)


def _permuted(graph: Graph, seed: int) -> Graph:
    """The same program with its values under other numbers."""
    new = list(range(len(graph.values)))
    random.Random(seed).shuffle(new)
    values: list[Value] = [Value(0)] * len(new)
    for old, value in enumerate(graph.values):
        values[new[old]] = value
    ops = tuple(
        dataclasses.replace(
            op,
            operands=tuple(new[v] for v in op.operands),
            results=tuple(new[v] for v in op.results),
        )
        for op in graph.ops
    )
    return dataclasses.replace(graph, values=tuple(values), ops=ops)


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
@pytest.mark.parametrize("make", [lambda: transformer(2), lambda: residual_chain(9)])
def test_units_and_numbering_do_not_matter(make: Callable[[], Graph], share: float) -> None:
    graph = make()
    budget = int(simulate(graph).peak * share)
    plan = solve(graph, budget)
    assert plan.status.has_plan
    scaled = solve(_scaled(graph, 1000, 10.0), budget * 1000)
    assert scaled.recomputes == plan.recomputes
    permuted = solve(_permuted(graph, 1), budget)
    assert permuted.recomputes == plan.recomputes


def test_a_budget_that_no_plan_meets_says_which_op_needs_more() -> None:
    graph = training_chain([1, 5, 9, 3], [1, 1, 1])
    plan = solve(graph, 14)
    assert plan.status is Status.IMPOSSIBLE
    assert (plan.structural_minimum_bytes, plan.structural_minimum_op) == (15, "f1")


def test_deep_chains_run_values_many_times() -> None:
    graph = training_chain([1] * 60 + [0], [1] * 60, in_place=True)
    plan = solve(graph, 5)
    assert plan.status.has_plan
    runs: dict[int, int] = {}
    for r in plan.recomputes:
        runs[r.op] = runs.get(r.op, 0) + 1
    assert max(runs.values()) > 2


def test_a_plan_prints_what_it_knows() -> None:
    graph = transformer(2)
    text = str(solve(graph, int(simulate(graph).peak * 0.8)))
    assert "status     " in text
    assert "so at most" in text
    assert "unknown" in str(solve(graph, 10))


def test_what_may_not_run_again_is_kept() -> None:
    chain = training_chain([0, 4, 4, 4, 4, 0], [1] * 5)
    ops = list(chain.ops)
    ops[0] = Op(1, (0,), (1,), "f0", is_recomputable=False)
    graph = Graph(chain.values, tuple(ops))
    plan = solve(graph, 12)
    assert plan.status is Status.OPTIMAL
    assert all(r.op != 0 for r in plan.recomputes)
