# SPDX-License-Identifier: Apache-2.0
"""Minimum cuts at one boundary, priced so that the peak fits: for graphs of any size.

The cut is boundary.py's. What it doesn't keep is made again just before it is first read, so the
peak is what is kept and the bursts on top; the price of a byte is searched by bisection until the
simulator's peak fits. Equal layers have equal prices, so that neighbouring cuts lie far apart:
between them, the ops up to some position follow the one and the others the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hlo_remat.planner.blocks import pivot
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Recompute, simulate
from hlo_remat.planner.stages import just_in_time
from hlo_remat.planner.tradeoff import program_boundary

STEPS = 12
Offer = Callable[[list[Recompute]], bool]


def search(graph: Graph, budget: int, end: float, offer: Offer) -> None:
    """Offers plans at ever closer prices, then mixtures of the closest two. Stops at `end`, on
    `time.monotonic`'s clock, or when `offer` says that nothing better can be."""
    turn = pivot(graph)
    problem = program_boundary(graph)
    total_bytes, total_cost = int(problem.bytes.sum()), float(problem.cost.sum())
    if not total_bytes or not total_cost:
        return
    tried: dict[tuple[int, ...], bool] = {}

    def fits(again: list[int]) -> bool | None:
        """Whether these ops run again within the budget; None if the search is over."""
        key = tuple(again)
        if key not in tried:
            recomputes = just_in_time(graph, [0, turn], [[], again])
            if offer(recomputes) or time.monotonic() > end:
                return None
            tried[key] = simulate(graph, recomputes).peak <= budget
        return tried[key]

    low, high, price = 0.0, 0.0, total_cost / total_bytes
    little: list[int] = []
    much: list[int] | None = None
    for _ in range(STEPS):
        again = problem.cut(price).again.tolist()
        is_within = fits(again)
        if is_within is None:
            return
        if is_within:
            high, much = price, again
        else:
            low, little = price, again
        price = (low + high) / 2 if high else low * 4
    if much is None:
        return
    first, last = 0, turn  # much up to the position `last` fits, up to `first` it doesn't
    while last - first > 1:
        middle = (first + last) // 2
        mixed = sorted({o for o in much if o < middle} | {o for o in little if o >= middle})
        is_within = fits(mixed)
        if is_within is None:
            return
        if is_within:
            last = middle
        else:
            first = middle
