# SPDX-License-Identifier: Apache-2.0
"""Chains: revolve against checkpoint_schedules, and the dynamic program against revolve."""

from __future__ import annotations

import time

import pytest
from checkpoint_schedules import Forward, Revolve
from graphs import training_chain

from hlo_remat.planner import Graph, Recompute, Status, simulate, solve
from hlo_remat.planner.simulate import recompute_cost
from hlo_remat.planner.solvers import chain_dp, exact, revolve


def chain(length: int) -> Graph:
    """Equal steps in place: states 0 to length - 1 of one byte, read in reverse."""
    return training_chain([1] * length + [0], [1] * length, in_place=True)


def oracle(length: int, slots: int) -> int:
    """Steps forward of checkpoint_schedules, less those that are taken just before each reverse:
    our backward reads the state itself."""
    actions = Revolve(length, slots)
    return sum(a.n1 - a.n0 for a in actions if isinstance(a, Forward)) - length


@pytest.mark.parametrize("length", [10, 11, 100, 317, 1000])
@pytest.mark.parametrize("slots", [2, 3, 5, 10, 20])
def test_uniform_chains_take_as_many_steps_as_the_oracle(length: int, slots: int) -> None:
    graph = chain(length)
    plan = solve(graph, slots + 1)
    assert (plan.status, plan.peak_bytes <= slots + 1) == (Status.OPTIMAL, True)
    # The program itself takes length steps, the last of which nobody reads.
    assert plan.extra_cost + length - 1 == oracle(length, slots)
    assert plan.seconds < 5


def test_revolve_is_the_optimum_of_the_pebble_game() -> None:
    for length in range(2, 8):
        for slots in range(1, 5):
            found = revolve.search(chain(length), slots + 1)
            result = exact.search(chain(length), slots + 1)
            assert found is not None
            assert result.recomputes is not None
            assert found[1] == recompute_cost(chain(length), result.recomputes)


@pytest.mark.parametrize(("length", "slots"), [(10, 2), (50, 3), (100, 5), (300, 10)])
def test_the_dynamic_program_reaches_revolve(length: int, slots: int) -> None:
    graph = chain(length)
    best = []

    def offer(recomputes: list[Recompute]) -> bool:
        if simulate(graph, recomputes).peak <= slots + 1:
            best.append(len(recomputes))
        return False

    chain_dp.search(graph, slots + 1, time.monotonic() + 30, offer)
    assert min(best) + length - 1 == oracle(length, slots)


def test_chains_of_other_steps_are_left_to_others() -> None:
    sizes = [1] * 10 + [0]
    for other in (
        training_chain(sizes, [1] * 9 + [1], in_place=False),
        training_chain(sizes, [1, 2] * 5, in_place=True),
        training_chain([1, 2] * 5 + [0], [1] * 10, in_place=True),
        training_chain(sizes, [1] * 10, gradient=1, in_place=True),
    ):
        assert revolve.search(other, 5) is None


@pytest.mark.parametrize("slots", [2, 3])
def test_nearly_uniform_chains_stay_close_to_revolve(slots: int) -> None:
    length = 40
    costs = [1 + (i * 7 % 5) / 100 for i in range(length)]
    graph = training_chain([100 + i % 3 for i in range(length)] + [0], costs, 1)
    plan = solve(graph, 102 * (slots + 2) + 4)
    assert plan.status.has_plan
    assert plan.extra_cost <= 1.05 * (revolve.steps(length, slots) - (length - 1))
