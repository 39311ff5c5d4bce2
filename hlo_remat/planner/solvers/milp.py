# SPDX-License-Identifier: Apache-2.0
"""Checkmate's integer program (Jain et al., MLSys 2020) over stages of many ops.

Checkmate gives each op a stage of its own. Here a stage is a run of consecutive ops, so that there
are K·V unknowns and not V². With 0/1 unknowns

- S[v,k]: value v, made before stage k, is in memory when stage k starts;
- R[o,k]: op o, of a stage before k, runs again in stage k;

the program is: minimise the cost of all R with

    S[v,k] + R[o,k] >= 1                 where stage k reads v, which o makes
    S[v,k] + R[o,k] >= R[w,k]            where op w reads v
    S[v,k+1] <= S[v,k] + R[o,k]          of what stage k-1 didn't make
    P[v,k] >= S[v,k+1] - R[o,k]          P: v stays in memory all through stage k

and one row for each moment: the values that are in memory then, as S, R and P say, fit the budget.
A moment is the first run of an op, or another run of it in stage k. There are many moments and few
that matter, so rows are made as solutions of the linear relaxation violate them.

The order in which a stage recomputes depends on what it recomputes, so the rows are close, but no
proof. The simulator judges each solution; one that is over budget gives a row of its own, and the
program is solved again. Bounds come from bounds.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Recompute, simulate
from hlo_remat.planner.solvers import greedy
from hlo_remat.planner.stage_program import MomentTable, StageProgram, root_reads

# Numbers of stages and reach, in the order of trial.
SIZES = ((8, 4), (16, 8), (24, 8), (16, 16), (40, 12), (64, 16), (128, None))
# Work for each second of the time limit: an unknown counts once, and once more for every five
# nodes of the search tree. HiGHS took 0.05 to 0.5 ms for it (2 cores, 2026-12).
WORK = 1_300.0
MAX_ROUNDS = 6
Offer = Callable[[list[Recompute]], bool]


def search(graph: Graph, budget: int, work: float, end: float, offer: Offer) -> None:
    """Solves programs of more and more stages and reach, and offers what they say.

    Stops when as much `work` is done, at `end`, on `time.monotonic`'s clock, or when
    `offer` says that nothing better can be.
    """
    points = stage_points(graph, budget)
    tried: set[tuple[int, ...]] = set()
    for stages, reach in SIZES:
        starts = [0, *(points[i * len(points) // stages] for i in range(stages))]
        if len(points) <= stages:
            starts = [0, *points]
        program = StageProgram(graph, budget, starts, reach)
        key = (*starts, program.unknowns)
        if program.unknowns > work or time.monotonic() > end:
            return
        if key in tried:
            continue
        tried.add(key)
        work = _solve(program, work, end, offer)
        if work <= 0:
            return


def _solve(program: StageProgram, work: float, end: float, offer: Offer) -> float:
    """The work that is left; 0 when nothing better can be."""
    graph, budget = program.graph, program.budget
    table = MomentTable(program)
    for _ in range(MAX_ROUNDS):
        x = program.solve(end - time.monotonic(), is_integer=False)
        if x is None or not program.fit_violated(x, table):
            break
    seen: list[list[Recompute]] = []
    while len(seen) < MAX_ROUNDS and program.work < work and time.monotonic() < end:
        x = program.solve(end - time.monotonic())
        if x is None:
            break
        recomputes = program.recomputes(x)
        execution = simulate(graph, recomputes)
        if execution.peak > budget:
            recomputes = greedy.evict(graph, budget, recomputes, end)
        if offer(recomputes):
            return 0.0
        if execution.peak <= budget or recomputes in seen:
            break
        seen.append(recomputes)
        program.fit_violated(x, table)
        program.fit_execution(execution, x)
    return work - program.work


def stage_points(graph: Graph, budget: int) -> list[int]:
    """The positions at which recomputing can help: those of ops that read what was last touched
    before a moment over budget."""
    over = np.flatnonzero(simulate(graph).memory > budget)
    touched = dict[int, int]()
    points: list[int] = []
    for p, values in enumerate(root_reads(graph)):
        for v in values:
            last = touched.get(v)
            if last is not None:
                i = int(np.searchsorted(over, last, side="right"))
                if i < len(over) and over[i] < p and (not points or points[-1] != p):
                    points.append(p)
            touched[v] = p
        for v in graph.ops[p].results:
            touched[v] = p
    return points
