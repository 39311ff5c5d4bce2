# SPDX-License-Identifier: Apache-2.0
"""Saved bytes against recompute at a boundary, against all choices; and PyTorch's three faults."""

from __future__ import annotations

import itertools

import pytest
from graphs import residual_chain, training_graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_remat.errors import GraphError
from hlo_remat.planner import Graph, Op, Value, simulate, solve, tradeoff
from hlo_remat.planner.boundary import Boundary
from hlo_remat.planner.tradeoff import program_boundary


def all_choices(problem: Boundary) -> list[tuple[int, float]]:
    """(bytes, cost) of every choice of values to keep."""
    found = []
    values = len(problem.values)
    for kept in itertools.product([False, True], repeat=values):
        again: set[int] = set()
        todo = [v for v in range(values) if problem.need[v] and not kept[v]]
        is_possible = all(problem.may[v] for v in range(values) if kept[v])
        while todo and is_possible:
            op = int(problem.maker[todo.pop()])
            if op < 0:
                is_possible = False
            elif op not in again:
                again.add(op)
                pairs = zip(problem.reader, problem.read, strict=True)
                todo += [int(v) for reader, v in pairs if reader == op and not kept[v]]
        if is_possible:
            size = sum(int(problem.bytes[v]) for v in range(values) if kept[v])
            found.append((size, sum(float(problem.cost[o]) for o in again)))
    return found


@st.composite
def boundaries(draw: st.DrawFn) -> Graph:
    graph = draw(training_graphs(most=5))
    count = len(graph.ops) // 2
    ops = list(graph.ops)
    for i in draw(st.sets(st.integers(0, count - 1), max_size=1)):
        ops[i] = Op(ops[i].cost, ops[i].operands, ops[i].results, is_recomputable=False)
    values = list(graph.values)
    for i in draw(st.sets(st.integers(0, count - 1), max_size=2)):
        if ops[i].is_recomputable:
            values[i] = Value(values[i].bytes, is_savable=False)
    return Graph(tuple(values), tuple(ops), boundary=count)


@settings(max_examples=500, deadline=None)
@given(boundaries(), st.integers(0, 20))
def test_tradeoffs_are_as_good_as_all_choices(graph: Graph, budget: int) -> None:
    choices = all_choices(program_boundary(graph))
    best = min((cost for size, cost in choices if size <= budget), default=None)
    found = tradeoff(graph, saved_bytes=budget)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert found.saved_bytes <= budget
    assert found.cost == pytest.approx(best)
    assert found.lower_bound <= best + 1e-6
    fewest = tradeoff(graph, cost=best)
    assert fewest is not None
    assert fewest.saved_bytes == min(size for size, cost in choices if cost <= best)


@settings(max_examples=300, deadline=None)
@given(boundaries(), st.floats(0.01, 10))
def test_cuts_are_the_cheapest_choice_at_their_price(graph: Graph, price: float) -> None:
    problem = program_boundary(graph)
    choice = problem.cut(price)
    best = min((cost + price * size for size, cost in all_choices(problem)), default=None)
    if best is None:
        return
    assert choice.cost + price * choice.saved_bytes == pytest.approx(best, rel=1e-5, abs=1e-5)
    assert choice.lower_bound <= best * (1 + 1e-12)


@settings(max_examples=300, deadline=None)
@given(boundaries(), st.integers(0, 20))
def test_prices_alone_give_choices_within_the_budget_and_a_bound(graph: Graph, budget: int) -> None:
    problem = program_boundary(graph)
    best = min((c for size, c in all_choices(problem) if size <= budget), default=None)
    choice, bound = problem.price(budget)
    if choice is not None:
        assert choice.saved_bytes <= budget
        assert best is not None
        assert choice.cost >= best - 1e-9
    if best is not None:
        assert bound <= best + 1e-6


def test_one_of_bytes_and_cost_is_asked_for() -> None:
    with pytest.raises(GraphError, match="either saved_bytes or cost"):
        tradeoff(residual_chain(2))


def test_the_peak_never_rises_when_the_budget_falls() -> None:
    """PyTorch issue 197838."""
    graph = residual_chain(6)
    peak = simulate(graph).peak
    for share in (1.0, 0.9, 0.8, 0.7, 0.6):
        budget = int(peak * share)
        plan = solve(graph, budget)
        assert plan.status.has_plan
        assert plan.peak_bytes <= budget


def test_capacity_is_never_exceeded() -> None:
    """PyTorch issue 197871: items of which the last one just doesn't fit."""
    sizes = [3, 3, 3, 5]
    ops = tuple(Op(float(s), (), (i,)) for i, s in enumerate(sizes))
    backward = Op(0.0, tuple(range(4)), ())
    graph = Graph(tuple(Value(s) for s in sizes), (*ops, backward), boundary=4)
    for budget in range(15):
        found = tradeoff(graph, saved_bytes=budget)
        assert found is not None
        assert found.saved_bytes <= budget


def test_what_draws_random_bits_runs_once() -> None:
    """PyTorch issue 190758."""
    graph = residual_chain(5)
    ops = list(graph.ops)
    for i in range(1, 15, 3):
        ops[i] = Op(0.0, ops[i].operands, ops[i].results, is_recomputable=False)
    impure = Graph(graph.values, tuple(ops))
    plan = solve(impure, int(0.75 * simulate(impure).peak))
    assert plan.status.has_plan
    assert plan.recomputes
    assert not {r.op for r in plan.recomputes} & set(range(1, 15, 3))
