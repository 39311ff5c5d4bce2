# SPDX-License-Identifier: Apache-2.0
"""`tradeoff`: saved bytes against recompute cost at one boundary, without a peak."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from hlo_remat.errors import GraphError
from hlo_remat.planner.boundary import Boundary, Choice, boundary_at
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import simulate


@dataclasses.dataclass(frozen=True)
class Tradeoff:
    """What is saved over the boundary, and what is made again after it.

    - `saved`, `recomputed`: indices of values and of ops.
    - `saved_bytes`; `cost`: of what is recomputed; `recompute_fraction`: of the sum of all costs.
    - `lower_bound`, `lower_bound_fraction`: no choice of at most the bytes asked for costs less.
    """

    saved: tuple[int, ...]
    recomputed: tuple[int, ...]
    saved_bytes: int
    cost: float
    total_cost: float
    lower_bound: float
    seconds: float

    @property
    def recompute_fraction(self) -> float:
        return self.cost / self.total_cost if self.total_cost else 0.0

    @property
    def lower_bound_fraction(self) -> float:
        return self.lower_bound / self.total_cost if self.total_cost else 0.0

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "saved_bytes": self.saved_bytes,
            "recompute_fraction": self.recompute_fraction,
            "lower_bound_fraction": self.lower_bound_fraction,
            "seconds": round(self.seconds, 3),
        }


def tradeoff(
    graph: Graph,
    *,
    saved_bytes: int | None = None,
    cost: float | None = None,
    time_limit: float = 10.0,
) -> Tradeoff | None:
    """The least recompute cost with at most `saved_bytes`, or the fewest bytes saved at a recompute
    cost of at most `cost`, in the unit of `Op.cost`: one of the two. None where nothing fits, since
    what may not be recomputed needs more.

    Values are those made before `graph.boundary` and read after it; arguments are saved for
    nothing. Raises `GraphError` unless exactly one of the two is given.
    """
    if (saved_bytes is None) == (cost is None):
        raise GraphError("tradeoff takes either saved_bytes or cost")
    start = time.monotonic()
    problem = program_boundary(graph)
    if saved_bytes is not None:
        choice = problem.solve(saved_bytes, time_limit)
        return None if choice is None else _tradeoff(graph, choice, start)
    low, high = 0, int(problem.bytes.sum())
    best: Choice | None = None
    while low <= high:
        middle = (low + high) // 2
        choice = problem.solve(middle, time_limit)
        if choice is not None and choice.cost <= cost:  # type: ignore[operator]
            best, high = choice, min(choice.saved_bytes, middle) - 1
        else:
            low = middle + 1
    return None if best is None else _tradeoff(graph, best, start)


def program_boundary(graph: Graph) -> Boundary:
    """The problem at the graph's boundary: nothing has to be kept, what isn't savable can't be."""
    position = graph.boundary
    if position is None:
        position = graph.moment(simulate(graph).peak_run)
    problem = boundary_at(graph, position)
    may = np.array([graph.values[v].is_savable for v in problem.values], bool)
    return dataclasses.replace(problem, must=np.zeros(len(may), bool), may=may)


def _tradeoff(graph: Graph, choice: Choice, start: float) -> Tradeoff:
    return Tradeoff(
        tuple(map(int, choice.kept)),
        tuple(map(int, choice.again)),
        choice.saved_bytes,
        choice.cost,
        graph.total_cost,
        min(choice.lower_bound, choice.cost),
        time.monotonic() - start,
    )
