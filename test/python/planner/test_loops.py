# SPDX-License-Identifier: Apache-2.0
"""Loops: stacks of all trips, and a backward loop that runs its forward's ops again."""

from __future__ import annotations

import pytest
from graphs import interpret
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_remat.errors import PlanError
from hlo_remat.planner import Graph, Loop, Op, Recompute, Status, Value, simulate, solve, tradeoff

TRIPS = 10


def scan(parts: int, savable: bool = True) -> Graph:
    """A forward loop of a carry and `parts` ops a trip, and the loop of its backward."""
    values = [Value(1, "x"), Value(4, "carry")]
    ops = [Op(1.0, (0,), (1,), "step", is_recomputable=False, loop=0)]
    for i in range(parts):
        values.append(Value(4, f"h{i}", is_savable=savable))
        ops.append(Op(1.0 + i, (i + 1,), (i + 2,), f"f{i}", loop=0))
    boundary = len(ops)
    last: tuple[int, ...] = ()
    for i in reversed(range(parts + 1)):
        values.append(Value(1, f"g{i}"))
        ops.append(Op(2.0, (i + 1, *last), (len(values) - 1,), f"b{i}", loop=1))
        last = (len(values) - 1,)
    loops = (Loop(TRIPS), Loop(TRIPS, replays=0))
    return Graph(tuple(values), tuple(ops), loops, boundary)


def unrolled(graph: Graph, recomputes: list[Recompute]) -> tuple[Graph, list[Recompute]]:
    """Both loops trip by trip, without the stacks."""
    values: list[Value] = [graph.values[0]]
    number: dict[tuple[int, int], int] = {(0, t): 0 for t in range(TRIPS)}
    ops: list[Op] = []
    place: dict[tuple[int, int], int] = {}
    for loop, trips in ((0, range(TRIPS)), (1, reversed(range(TRIPS)))):
        for t in trips:
            for i, op in enumerate(graph.ops):
                if op.loop != loop:
                    continue
                for v in op.results:
                    number[v, t] = len(values)
                    values.append(graph.values[v])
                place[i, t] = len(ops)
                operands = tuple(number[v, t] for v in op.operands)
                results = tuple(number[v, t] for v in op.results)
                ops.append(Op(op.cost / TRIPS, operands, results, "", op.is_recomputable))
    again = sorted(
        (Recompute(place[r.before, t], place[r.op, t]) for r in recomputes for t in range(TRIPS)),
        key=lambda r: r.before,
    )
    return Graph(tuple(values), tuple(ops)), again


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.data())
def test_stacks_hold_at_least_what_is_live_trip_by_trip(parts: int, data: st.DataObject) -> None:
    graph = scan(parts)
    count = parts + 1
    chosen = data.draw(st.lists(st.integers(1, parts), unique=True))
    # Each at the first op of the backward loop, in program order.
    recomputes = [Recompute(count, op) for op in sorted(chosen)]
    stacks = simulate(graph, recomputes)
    flat, again = unrolled(graph, recomputes)
    assert stacks.peak >= max(interpret(flat, again)) - 4 * parts  # a trip's own values overlap


def test_keeping_costs_memory_of_each_trip_recomputing_of_one() -> None:
    graph = scan(3)
    assert simulate(graph).peak == 1 + 4 * 4 * TRIPS + 2
    everything = [Recompute(4, op) for op in (1, 2, 3)]
    assert simulate(graph, everything).peak == 1 + 4 * TRIPS + 12 + 1


@pytest.mark.parametrize("budget", [60, 100, 140])
def test_plans_run_ops_again_in_the_loop_that_replays_theirs(budget: int) -> None:
    graph = scan(3)
    plan = solve(graph, budget)
    assert plan.status.has_plan
    assert plan.peak_bytes <= budget
    assert all(graph.ops[r.before].loop == 1 for r in plan.recomputes)
    assert plan.lower_bound is not None
    assert plan.lower_bound <= plan.extra_cost


def test_what_may_not_be_kept_runs_again() -> None:
    graph = scan(2, savable=False)
    found = tradeoff(graph, saved_bytes=1000)
    assert found is not None
    assert (found.saved_bytes, found.cost) == (4 * TRIPS, 3.0)


def test_the_carry_has_to_be_kept() -> None:
    graph = scan(2)
    plan = solve(graph, 4 * TRIPS)
    assert plan.status is Status.IMPOSSIBLE
    assert plan.structural_minimum_bytes > 4 * TRIPS


def test_ops_run_again_only_where_a_trip_is_the_same() -> None:
    graph = scan(2)
    after = Graph(
        (*graph.values, Value(1)), (*graph.ops, Op(1.0, (2,), (len(graph.values),))), graph.loops
    )
    with pytest.raises(PlanError, match="in a loop that doesn't replay its own"):
        simulate(after, [Recompute(len(graph.ops), 1)])
