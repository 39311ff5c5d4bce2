# SPDX-License-Identifier: Apache-2.0
"""Evict at the peak, until it fits: the fallback that always answers.

In the manner of DTR (Kirisame et al., ICLR 2021), but offline: of the instances live at the highest
moment and not read there, the one with the most bytes for the cost of making it again is dropped,
and made again just before it is read next, with what it needs and isn't there. What is made again
can be dropped again, so that any depth of recomputing is reached.
"""

from __future__ import annotations

import time

import numpy as np

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Execution, Recompute, can_replay, recompute_cost, simulate
from hlo_remat.planner.stages import is_view, without_dead


def evict(graph: Graph, budget: int, start: list[Recompute], end: float) -> list[Recompute]:
    """Runs on top of `start` until `budget` bytes are met, or the plan of least memory found by
    the time `end`, on `time.monotonic`'s clock."""
    current = best = list(start)
    execution = simulate(graph, current)
    lowest = execution.peak
    stuck = 0
    while execution.peak > budget and time.monotonic() < end and stuck < 20:
        step = _best_step(graph, execution, budget)
        if step is None:
            break
        current = without_dead(graph, _insert(current, execution, *step))
        execution = simulate(graph, current)
        stuck += 1
        if execution.peak < lowest:
            best, lowest, stuck = current, execution.peak, 0
    return best


def _best_step(graph: Graph, execution: Execution, budget: int) -> tuple[int, list[int]] | None:
    """The run before which to run ops again, and those ops; None if nothing can be dropped."""
    run = execution.peak_run
    (live,) = np.nonzero((execution.birth < run) & (execution.end > run) & (execution.size > 0))
    newest_at = _Newest(graph, execution)
    best: tuple[float, int, list[int]] | None = None
    for i in live:
        v = int(execution.value[i])
        maker = int(graph.definer[v])
        if maker < 0 or not graph.ops[maker].is_recomputable:
            continue
        reads = newest_at.reads(int(i))
        after = [r for r in reads if r > run]
        if not after or run in reads:
            continue
        ops = _closure(graph, execution, newest_at, maker, after[0], int(i))
        if ops is None:
            continue
        cost = sum(graph.ops[o].cost for o in ops)
        need = execution.memory[run] - budget
        score = cost / min(int(execution.size[i]), max(int(need), 1))
        if best is None or score < best[0]:
            best = score, after[0], ops
    return None if best is None else (best[1], best[2])


class _Newest:
    """Which instance of a value a run would read."""

    def __init__(self, graph: Graph, execution: Execution):
        self.graph = graph
        self.execution = execution
        self.of: dict[int, list[int]] = {}
        for i, v in enumerate(execution.value):
            self.of.setdefault(int(v), []).append(i)
        self._reads: dict[int, list[int]] | None = None

    def at(self, value: int, run: int) -> int:
        made = [i for i in self.of[value] if self.execution.birth[i] < run or self._is_argument(i)]
        return made[-1]

    def _is_argument(self, i: int) -> bool:
        return bool(self.graph.definer[self.execution.value[i]] < 0)

    def reads(self, instance: int) -> list[int]:
        """The runs that read an instance or a view of it."""
        if self._reads is None:
            self._reads = {}
            newest = {int(v): self.of[int(v)][0] for v in np.flatnonzero(self.graph.definer < 0)}
            counter = dict.fromkeys(self.of, 0)
            root = {i: i for i in newest.values()}
            for run, op in enumerate(self.execution.sequence):
                for v in dict.fromkeys(self.graph.ops[op].operands):
                    self._reads.setdefault(root[newest[v]], []).append(run)
                for v in self.graph.ops[op].results:
                    i = self.of[v][counter[v]]
                    counter[v] += 1
                    newest[v] = i
                    alias = self.graph.values[v].alias_of
                    root[i] = i if alias is None else root[newest[alias]]
        return self._reads.get(instance, [])


def _closure(
    graph: Graph, execution: Execution, newest: _Newest, maker: int, run: int, dropped: int
) -> list[int] | None:
    """`maker` and what else must run just before `run` so that it can, in order."""
    before = int(execution.is_first[: run + 1].sum()) - bool(execution.is_first[run])
    ops: list[int] = []
    seen: set[int] = set()
    todo = [maker]
    while todo:
        op = todo[-1]
        if op in seen:
            todo.pop()
            continue
        if not graph.ops[op].is_recomputable or not can_replay(graph, op, before):
            return None
        pending = []
        for v in graph.ops[op].operands:
            m = int(graph.definer[v])
            i = newest.at(v, run)
            if m >= 0 and m not in seen and (i == dropped or execution.end[i] < run):
                pending.append(m)
        if pending:
            if len(todo) > 2 * len(graph.ops):
                return None
            todo.append(pending[0])
            continue
        todo.pop()
        seen.add(op)
        ops.append(op)
    # Views of what is made again, which the run reads.
    for v in graph.ops[int(execution.sequence[run])].operands:
        chain = []
        while graph.values[v].alias_of is not None:
            chain.append(int(graph.definer[v]))
            v = graph.values[v].alias_of  # type: ignore[assignment]
        if int(graph.definer[v]) in seen:
            ops += [m for m in reversed(chain) if m not in seen and is_view(graph, m)]
    return ops


def _insert(
    recomputes: list[Recompute], execution: Execution, run: int, ops: list[int]
) -> list[Recompute]:
    """`recomputes` with runs of `ops` just before `run`."""
    firsts = int(execution.is_first[:run].sum())
    place = run - firsts
    before = firsts if execution.is_first[run] else recomputes[place].before
    return recomputes[:place] + [Recompute(before, op) for op in ops] + recomputes[place:]


def drop_needless(
    graph: Graph, budget: int, recomputes: list[Recompute], trials: int, end: float
) -> list[Recompute]:
    """Local search: leaves out runs, the most expensive first, where the budget is met without.
    At most `trials` are tried, and none after `end`."""
    best = list(recomputes)
    cost = recompute_cost(graph, best)
    in_order = sorted(best, key=lambda r: (-graph.ops[r.op].cost, r.before, r.op))
    for r in in_order[:trials]:
        if time.monotonic() > end:
            break
        if r not in best:
            continue
        i = best.index(r)
        trial = without_dead(graph, best[:i] + best[i + 1 :])
        if simulate(graph, trial).peak <= budget:
            lower = recompute_cost(graph, trial)
            if lower <= cost:
                best, cost = trial, lower
    return best
