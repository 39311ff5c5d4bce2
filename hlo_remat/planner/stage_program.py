# SPDX-License-Identifier: Apache-2.0
"""The integer program of solvers/milp.py, which explains it: unknowns, rows, and HiGHS."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.optimize
import scipy.sparse

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Execution, Recompute, can_replay
from hlo_remat.planner.stages import is_view, just_in_time

MAX_NODES = 20
RELATIVE_GAP = 0.005


class StageProgram:
    """The integer program for a graph, a budget in bytes and the stages' first positions.

    `reach`: how many ops deep a stage may recompute; None for no limit.
    """

    def __init__(self, graph: Graph, budget: int, starts: Sequence[int], reach: int | None = None):
        self.graph = graph
        self.budget = budget
        self.starts = list(starts)
        self.ends = [*self.starts[1:], len(graph.ops)]
        self.reach = reach
        self.reads = root_reads(graph)
        self.order = program_order(graph)
        self.unknowns = 0
        self.work = 0.0
        self.kept: dict[tuple[int, int], int] = {}
        self.again: dict[tuple[int, int], int] = {}
        self.through: dict[tuple[int, int], int] = {}
        self.span: dict[tuple[int, int], tuple[int, int]] = {}
        self.rows: list[tuple[dict[int, float], float]] = []  # sum of factor * unknown >= bound
        self.has_row: set[tuple[int, int]] = set()
        values = zip(graph.values, graph.definer, strict=True)
        self.always = sum(v.bytes for v, op in values if op < 0 and not v.is_donated)
        self._build()

    # -- unknowns, and rows without memory -------------------------------------------------------

    def _build(self) -> None:
        graph, starts = self.graph, self.starts
        self.here: list[dict[int, list[int]]] = []
        self.candidates: list[set[int]] = [set()]
        for k, (start, end) in enumerate(zip(starts, self.ends, strict=True)):
            here: dict[int, list[int]] = {}
            for p in range(start, end):
                for v in self.reads[p]:
                    here.setdefault(v, []).append(p)
            self.here.append(here)
            if k:
                self.candidates.append(self._candidates(k))
        needed: list[set[int]] = [set() for _ in [*starts, None]]
        for k in reversed(range(len(starts))):
            needed[k] = needed[k + 1] | self.here[k].keys()
            needed[k].update(v for op in self.candidates[k] for v in self.reads[op])
        for k in range(1, len(starts)):
            for v in sorted(needed[k], key=self.order.__getitem__):
                if 0 <= graph.definer[v] < starts[k]:
                    self.kept[v, k] = self._unknown()
            for op in sorted(self.candidates[k]):
                self.again[op, k] = self._unknown()
        for (v, k), after in list(self.kept.items()):
            if graph.definer[v] < starts[k - 1]:
                self.rows.append((self._available(v, k - 1) | {after: -1.0}, 0.0))
                again = self.again.get((int(graph.definer[v]), k - 1))
                if again is not None:
                    self.through[v, k - 1] = through = self._unknown()
                    self.rows.append(({through: 1.0, after: -1.0, again: 1.0}, 0.0))
        for k in range(1, len(starts)):
            for v in sorted(self.here[k], key=self.order.__getitem__):
                if 0 <= graph.definer[v] < starts[k]:
                    self.rows.append((self._available(v, k), 1.0))
        for (op, k), unknown in self.again.items():
            for v in self.reads[op]:
                if graph.definer[v] >= 0:
                    self.rows.append((self._available(v, k) | {unknown: -1.0}, 0.0))
        if graph.boundary is not None:
            self._forbid(graph.boundary)

    def _candidates(self, k: int) -> set[int]:
        """The ops that stage `k` may run again: how what it reads was made."""
        graph, start = self.graph, self.starts[k]
        found: set[int] = set()
        for p in range(start, self.ends[k]):
            front, depth = {p}, 0
            closure: set[int] = set()
            while front and (self.reach is None or depth < self.reach):
                makers = {int(graph.definer[v]) for op in front for v in self.reads[op]}
                front = {
                    m
                    for m in makers - closure
                    if 0 <= m < start and graph.ops[m].is_recomputable and can_replay(graph, m, p)
                }
                closure |= front
                depth += 1
            for op in closure:
                low, high = self.span.get((op, k), (p, p))
                self.span[op, k] = min(low, p), max(high, p)
            found |= closure
        return found

    def _unknown(self) -> int:
        self.unknowns += 1
        return self.unknowns - 1

    def _available(self, v: int, k: int) -> dict[int, float]:
        keys = (self.kept.get((v, k)), self.again.get((int(self.graph.definer[v]), k)))
        return {u: 1.0 for u in keys if u is not None}

    def _forbid(self, boundary: int) -> None:
        """What isn't savable isn't kept from before the boundary to after it."""
        k = int(np.searchsorted(self.starts, boundary))
        for (v, stage), unknown in self.kept.items():
            if stage == k and not self.graph.values[v].is_savable:
                self.rows.append(({unknown: -1.0}, 0.0))

    # -- memory ----------------------------------------------------------------------------------

    def moments(self) -> list[tuple[int, int]]:
        """All moments, (op, stage): the first run of an op is in its own stage."""
        first = [
            (p, k)
            for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True))
            for p in range(start, end)
        ]
        return first + list(self.again)

    def memory(self, op: int, k: int) -> tuple[dict[int, float], float]:
        """Bytes in memory when `op` runs in stage `k`: factors of unknowns, and a constant.

        For another run of `op` they count only if it takes place.
        """
        graph = self.graph
        row: dict[int, float] = {}
        constant = float(self.always)
        own = float(graph.workspace[op]) - sum(
            graph.values[r].bytes for o, r in graph.ops[op].in_place if self._dies(o, op, k)
        )
        if op >= self.starts[k]:
            constant += own
        elif own:
            row[self.again[op, k]] = own
        for _, terms, size in self.terms(op, k):
            constant += size
            for unknown, factor in terms.items():
                row[unknown] = row.get(unknown, 0.0) + factor
        return row, constant

    def terms(self, op: int, k: int) -> Iterator[tuple[int, dict[int, float], float]]:
        """For each value its part in `memory`: factors and a constant."""
        graph = self.graph
        is_first = op >= self.starts[k]
        low, high = (op, op) if is_first else self.span[op, k]
        own = {*self.reads[op], *graph.ops[op].results}
        for v in own:
            size = float(graph.bytes[v])
            if graph.definer[v] < 0 and not graph.values[v].is_donated:
                continue
            yield (v, {}, size) if is_first else (v, {self.again[op, k]: size}, 0.0)
        for v in self.around[k]:
            if v in own:
                continue
            definer = int(graph.definer[v])
            is_outside = graph.loop[definer] != graph.loop[low]
            size = float((graph.stacked_bytes if is_outside else graph.bytes)[v])
            at = self.here[k].get(v)
            after = self.kept.get((v, k + 1))
            is_before = definer < op
            if definer >= self.starts[k]:
                if definer >= low:
                    continue
                last = at[-1] if at else -1
                stays = last > op if is_first else last >= high
                stays = stays or graph.values[v].is_output
                unknown = None if stays else after
            elif at and at[-1] >= high:
                stays = at[0] <= low and is_before
                unknown = self.kept.get((v, k))
            else:
                stays = False
                comes = is_before and (not is_first or (at is not None and at[0] <= low))
                unknown = after if comes else self.through.get((v, k), after)
            if stays:
                yield v, {}, size
            elif unknown is not None:
                yield v, {unknown: size}, 0.0

    @functools.cached_property
    def around(self) -> list[list[int]]:
        """For each stage the values that may be in memory in it, in program order."""
        graph = self.graph
        around: list[set[int]] = [set() for _ in self.starts]
        for v, k in self.kept:
            around[k].add(v)
            around[k - 1].add(v)
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            for p in range(start, end):
                around[k].update(graph.ops[p].results)
        return [
            sorted(
                (v for v in values if graph.bytes[v] and graph.definer[v] >= 0),
                key=self.order.__getitem__,
            )
            for values in around
        ]

    def _dies(self, v: int, op: int, k: int) -> bool:
        """Whether `op` is sure to be the last reader of `v`."""
        root = int(self.graph.root[v])
        return int(self.graph.last_read[root]) <= op and (root, k + 1) not in self.kept

    def fit_execution(self, execution: Execution, x: np.ndarray) -> None:
        """Demands that the highest run of each stage fits, where it doesn't in `execution`."""
        position = np.cumsum(execution.is_first) - execution.is_first
        stage = np.searchsorted(self.starts, position, side="right") - 1
        for k in range(len(self.starts)):
            runs = np.flatnonzero(stage == k)
            worst = int(runs[execution.memory[runs].argmax()]) if len(runs) else 0
            if len(runs) and execution.memory[worst] > self.budget:
                self.fit_run(execution, worst, k, x)

    def fit_run(self, execution: Execution, run: int, k: int, x: np.ndarray) -> None:
        """Demands that `run`, which is in stage `k` and over budget in `execution`, fits.

        What is live there and isn't in the moment's row for the solution `x` that led to it is live
        because it is there, and because a recompute or a later stage reads it.
        """
        graph = self.graph
        op = int(execution.sequence[run])
        if not execution.is_first[run] and (op, k) not in self.again:
            k -= 1  # run at the end of its stage, for later ones
        if not execution.is_first[run] and (op, k) not in self.again:
            return  # a view
        row, constant = self.memory(op, k)
        counted = self._counted(op, k, x)
        (live,) = np.nonzero(
            (execution.birth <= run) & (execution.end >= run) & (execution.size > 0)
        )
        for i in live:
            v, size = int(execution.value[i]), float(execution.size[i])
            if v in counted or graph.definer[v] < 0:
                continue
            if graph.definer[v] >= self.starts[k]:
                again = self.again.get((op, k))
                if again is not None:
                    row[again] = row.get(again, 0.0) + size
                continue
            end = int(execution.end[i])
            reader = int(execution.sequence[end])
            for unknown in self._available(v, k):
                row[unknown] = row.get(unknown, 0.0) + size
            position = int(execution.is_first[: end + 1].sum()) - bool(execution.is_first[end])
            if position >= self.ends[k]:
                condition = self.kept.get((v, k + 1))
            else:
                condition = None if execution.is_first[end] else self.again.get((reader, k))
            if condition is not None:
                row[condition] = row.get(condition, 0.0) + size
                constant -= size
        self._fit(row, constant)

    def _counted(self, op: int, k: int, x: np.ndarray) -> set[int]:
        """The values that the moment's row counts for the solution `x`."""
        return {
            v
            for v, row, constant in self.terms(op, k)
            if constant + sum(f * x[u] for u, f in row.items()) > 0.5 * self.graph.bytes[v]
        }

    def _fit(self, row: dict[int, float], constant: float) -> None:
        """Demands that what `memory` says fits the budget; half a byte more is no more."""
        limit = self.budget + 0.5
        self.rows.append(({u: -f / limit for u, f in row.items()}, constant / limit - 1.0))

    def fit_violated(self, x: np.ndarray, table: MomentTable) -> int:
        """Adds the rows that `x` violates most, one for each stage; how many."""
        used = table.used(x)
        added = 0
        for rows in table.by_stage:
            worst = rows[used[rows].argmax()]
            moment = table.moments[worst]
            if used[worst] > self.budget * (1 + 1e-7) and moment not in self.has_row:
                self._fit(*self.memory(*moment))
                self.has_row.add(moment)
                added += 1
        return added

    # -- solving ---------------------------------------------------------------------------------

    def solve(self, seconds: float, is_integer: bool = True) -> np.ndarray | None:
        """The unknowns of the best solution found in that time, None for none."""
        count = [len(row) for row, _ in self.rows]
        i = np.repeat(np.arange(len(count)), count)
        u = np.array([u for row, _ in self.rows for u in row], np.int64)
        f = np.array([f for row, _ in self.rows for f in row.values()])
        bounds = np.array([bound for _, bound in self.rows])
        matrix = scipy.sparse.csr_array((f, (i, u)), shape=(len(count), self.unknowns))
        objective = np.zeros(self.unknowns)
        for (op, _), unknown in self.again.items():
            objective[unknown] = self.graph.ops[op].cost
        integrality = np.zeros(self.unknowns)
        if is_integer:
            integrality[list(self.kept.values()) + list(self.again.values())] = 1
        result = scipy.optimize.milp(
            objective / (objective.max() or 1.0),
            integrality=integrality,
            bounds=scipy.optimize.Bounds(0, 1),
            constraints=scipy.optimize.LinearConstraint(matrix, bounds, np.inf),
            options={
                "time_limit": max(seconds, 0.01),
                "mip_rel_gap": RELATIVE_GAP,
                "node_limit": MAX_NODES,
            },
        )
        if is_integer:
            self.work += self.unknowns * (1 + (result.mip_node_count or 0) / 5)
        if result.x is None or not is_integer:
            return result.x
        # Unknowns that the objective doesn't press down are where the rows let them be.
        x = np.round(result.x)
        for (v, k), through in self.through.items():
            again = x[self.again[int(self.graph.definer[v]), k]]
            x[through] = max(0.0, x[self.kept[v, k + 1]] - again)
        return x

    def recomputes(self, x: np.ndarray) -> list[Recompute]:
        """The runs that a solution says."""
        chosen: list[list[int]] = [[] for _ in self.starts]
        for (op, k), unknown in self.again.items():
            if x[unknown] > 0.5:
                chosen[k].append(op)
        return just_in_time(self.graph, self.starts, chosen)


class MomentTable:
    """The memory of all moments as one matrix."""

    def __init__(self, program: StageProgram):
        self.moments = program.moments()
        rows = [program.memory(*moment) for moment in self.moments]
        count = [len(row) for row, _ in rows]
        i = np.repeat(np.arange(len(count)), count)
        u = np.array([u for row, _ in rows for u in row], np.int64)
        f = np.array([f for row, _ in rows for f in row.values()])
        self.constant = np.array([constant for _, constant in rows])
        self.matrix = scipy.sparse.csr_array((f, (i, u)), shape=(len(rows), program.unknowns))
        stage = np.array([k for _, k in self.moments])
        self.by_stage = [np.flatnonzero(stage == k) for k in range(len(program.starts))]

    def used(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x + self.constant


def root_reads(graph: Graph) -> list[list[int]]:
    """For each op the values that it reads, views as what they look into; none for view ops."""
    return [
        [] if is_view(graph, i) else list(dict.fromkeys(int(graph.root[v]) for v in op.operands))
        for i, op in enumerate(graph.ops)
    ]


def program_order(graph: Graph) -> list[int]:
    """For each value its place in program order, arguments first."""
    order = sorted(range(len(graph.values)), key=lambda v: (int(graph.definer[v]), v))
    place = [0] * len(order)
    for i, v in enumerate(order):
        place[v] = i
    return place
