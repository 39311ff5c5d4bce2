# SPDX-License-Identifier: Apache-2.0
"""The simulator against an interpreter that allocates and frees."""

from __future__ import annotations

import pytest
from graphs import interpret, programs, training_chain
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_remat.errors import PlanError
from hlo_remat.planner import Graph, Loop, Op, Recompute, Value, simulate


@settings(max_examples=2000, deadline=None)
@given(st.data())
def test_every_moment_is_as_the_interpreter_says(data: st.DataObject) -> None:
    graph = data.draw(programs())
    again = [i for i, op in enumerate(graph.ops) if op.is_recomputable and i + 1 < len(graph.ops)]
    recomputes = []
    if again:
        for op in data.draw(st.lists(st.sampled_from(again), max_size=5)):
            recomputes.append(Recompute(data.draw(st.integers(op + 1, len(graph.ops) - 1)), op))
    recomputes.sort(key=lambda r: r.before)
    assert simulate(graph, recomputes).memory.tolist() == interpret(graph, recomputes)


def test_recomputing_frees_what_is_not_read_in_between() -> None:
    graph = training_chain([0, 4, 4, 4], [1, 1, 1])
    assert simulate(graph).peak == 12
    assert simulate(graph, [Recompute(4, 0)]).peak == 8
    assert simulate(graph, [Recompute(5, 0)]).peak == 12  # b1 reads x1 before


def test_loop_values_are_kept_of_each_trip_where_they_leave_the_loop() -> None:
    values = (Value(1, "x"), Value(2, "h"), Value(2, "y"), Value(2, "g"))
    ops = (Op(1, (0,), (1,), loop=0), Op(1, (1,), (2,), loop=0), Op(1, (1,), (3,), loop=1))
    graph = Graph(values, ops, (Loop(10), Loop(10, replays=0)))
    assert simulate(graph).memory.tolist() == [21, 23, 23]
    assert simulate(graph, [Recompute(2, 0)]).memory.tolist() == [3, 5, 3, 5]


@pytest.mark.parametrize(
    ("recomputes", "message"),
    [
        ([Recompute(0, 0)], "before its first run"),
        ([Recompute(5, 0), Recompute(4, 0)], "aren't sorted"),
        ([Recompute(5, 1)], "runs f1 again, which it may not"),
    ],
)
def test_plans_that_do_not_run_are_refused(recomputes: list[Recompute], message: str) -> None:
    chain = training_chain([0, 4, 4, 4], [1, 1, 1])
    ops = list(chain.ops)
    ops[1] = Op(1, (1,), (2,), "f1", is_recomputable=False)
    with pytest.raises(PlanError, match=message):
        simulate(Graph(chain.values, tuple(ops)), recomputes)
