# SPDX-License-Identifier: Apache-2.0
"""Loops: stacks of all trips, and a backward loop that runs its forward's ops again."""

from __future__ import annotations

import pytest
from graphs import interpret
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_remat.errors import PlanError
from hlo_remat.planner import Graph, Loop, Op, Recompute, Status, Value, simulate, solve, tradeoff
from hlo_remat.planner.stages import just_in_time

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


def with_weights() -> Graph:
    """Weights made in front of a loop, which it reads, and two loops of the backward that do."""
    values = [Value(8, "x"), Value(40, "w"), Value(0, "start"), Value(4, "h")]
    ops = [
        Op(1.0, (0,), (1,), "weights"),
        Op(1.0, (0, 1), (3,), "forward", loop=0),
    ]
    for loop in (1, 2):
        values += [Value(0, f"start {loop}"), Value(1, f"g{loop}")]
        count = len(values)
        ops += [
            Op(1.0, (0,), (count - 2,), f"start {loop}", is_recomputable=False),
            Op(1.0, (count - 2, 1, 3), (count - 1,), f"backward {loop}", loop=loop),
        ]
    loops = (Loop(TRIPS), Loop(TRIPS, replays=0), Loop(TRIPS, replays=0))
    return Graph(tuple(values), tuple(ops), loops)


def test_what_a_loop_reads_of_outside_runs_again_in_front_of_it() -> None:
    graph = with_weights()
    assert just_in_time(graph, [0, 2], [[], [0]]) == [Recompute(2, 0)]
    assert just_in_time(graph, [0, 3], [[], [0]]) == [Recompute(2, 0)]


def test_ops_of_a_loop_run_again_in_each_loop_that_replays_it() -> None:
    graph = with_weights()
    again = just_in_time(graph, [0, 2], [[], [1]])
    assert again == [Recompute(3, 1), Recompute(5, 1)]
    assert simulate(graph, again).peak < simulate(graph).peak


def test_the_moment_of_a_loop_is_outside_of_it() -> None:
    graph = with_weights()
    assert [graph.moment(p) for p in range(len(graph.ops))] == [0, 2, 2, 3, 4, 5]


@pytest.mark.parametrize("fraction", [0.6, 0.8])
def test_plans_at_a_peak_in_the_backward_loop(fraction: float) -> None:
    """Its last ops need most; by then the stacks are there."""
    graph = scan(4)
    last = len(graph.ops) - 1
    ops = (*graph.ops[:last], Op(1.0, (1,), graph.ops[last].results, workspace=20, loop=1))
    graph = Graph(graph.values, ops, graph.loops)
    assert simulate(graph).peak_run > last - 2
    plan = solve(graph, int(fraction * simulate(graph).peak))
    assert plan.status.has_plan
