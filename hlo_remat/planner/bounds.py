# SPDX-License-Identifier: Apache-2.0
"""What no plan can do: the least memory, and the least cost of fitting a budget. docs/planner.md
has the proofs."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from hlo_remat.planner.boundary import Boundary, boundary_at
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import simulate


@dataclasses.dataclass(frozen=True, slots=True)
class StructuralMinimum:
    """No plan needs less than `bytes`, for the op at position `op` needs them while it runs."""

    bytes: int
    op: int


def structural_minimum(graph: Graph) -> StructuralMinimum:
    """The most bytes that one op needs: its operands and results (once where in place), its
    workspace, the arguments that aren't donated, and what was made before it, is needed after it
    and may not be made again."""
    fixed = _fixed(graph)
    last = _last_read_of_root(graph)
    least = [0] * len(graph.ops)
    for i, op in enumerate(graph.ops):
        own = {int(graph.root[v]) for v in (*op.operands, *op.results)}
        argument = [graph.definer[v] < 0 and not graph.values[v].is_donated for v in own]
        size = sum(int(graph.bytes[v]) for v, a in zip(own, argument, strict=True) if not a)
        size -= sum(int(graph.bytes[v]) for v in own if _is_fixed(graph, v, i))
        for operand, _ in op.in_place:
            root = int(graph.root[operand])
            is_argument = graph.definer[root] < 0 and not graph.values[root].is_donated
            stays = graph.values[root].is_output or last[root] > i
            if not is_argument and not (stays and _is_fixed(graph, root, i)):
                size -= graph.values[operand].bytes
        least[i] = int(fixed[i]) + size + op.workspace
    where = int(np.argmax(least)) if least else 0
    return StructuralMinimum(least[where] if least else 0, where)


def _fixed(graph: Graph) -> np.ndarray:
    """Bytes live at each op in every plan, whatever it is. Shape [ops]."""
    change = np.zeros(len(graph.ops) + 1, np.int64)
    last = _last_read_of_root(graph)
    for v, value in enumerate(graph.values):
        definer = int(graph.definer[v])
        if definer < 0:
            change[0] += 0 if value.is_donated else value.bytes
        elif graph.bytes[v] and not graph.ops[definer].is_recomputable:
            leaves = graph.loop[max(int(last[v]), definer)] != graph.loop[definer]
            size = graph.stacked_bytes[v] if leaves or value.is_output else graph.bytes[v]
            change[definer] += size
            end = len(graph.ops) - 1 if value.is_output else max(int(last[v]), definer)
            change[end + 1] -= size
    return np.cumsum(change)[:-1]


def _is_fixed(graph: Graph, v: int, position: int) -> bool:
    """Whether `_fixed` counts the memory of `v` at `position`, where it is read or made."""
    definer = int(graph.definer[v])
    return definer >= 0 and not graph.ops[definer].is_recomputable and definer <= position


def _last_read_of_root(graph: Graph) -> np.ndarray:
    last = np.full(len(graph.values), -1, np.int64)
    np.maximum.at(last, graph.root, graph.last_read)
    return last


@dataclasses.dataclass(frozen=True, slots=True)
class CostBound:
    """No plan within the budget recomputes for less than `cost`, because of the op at `op`."""

    cost: float
    op: int


def recompute_bound(graph: Graph, budget: int, seconds: float = 3.0) -> CostBound | None:
    """The least cost of fitting `budget` bytes, by what must be in memory when one op first runs.

    It holds for every order of the ops. None where it says nothing: no op has more to keep than
    fits. Several ops are tried by linear programs, the best by an integer program; for large
    graphs by minimum cuts.
    """
    end = time.monotonic() + seconds
    memory = simulate(graph).memory
    best: tuple[float, int] | None = None
    over = np.flatnonzero(memory > budget)
    if not len(over):
        return None
    picked = over[np.unique(np.linspace(0, len(over) - 1, 16).astype(int))]
    candidates = list(dict.fromkeys([int(memory.argmax()), *map(int, picked)]))
    problems = {}
    for op in candidates:
        problem, room = _at(graph, op, budget)
        problems[op] = problem, room
        if len(problem.ops) > 4000:
            cost = problem.price(room, max(end - time.monotonic(), 0.05))[1]
        else:
            cost = problem.relax(room, max(end - time.monotonic(), 0.05))
        if cost > 0 and (best is None or cost > best[0]):
            best = cost, op
        if time.monotonic() > end:
            break
    if best is None:
        return None
    problem, room = problems[best[1]]
    if len(problem.ops) <= 4000 and time.monotonic() < end:
        exact = problem.solve(room, end - time.monotonic())
        if exact is not None:
            best = max(best[0], exact.lower_bound), best[1]
    return CostBound(*best)


def _at(graph: Graph, op: int, budget: int) -> tuple[Boundary, int]:
    """The problem at `op` in any order, and the bytes that it may keep."""
    problem = boundary_at(graph, op, is_any_order=True)
    values = zip(graph.values, graph.definer, strict=True)
    always = sum(v.bytes for v, d in values if d < 0 and not v.is_donated)
    own = int(graph.bytes[list(graph.ops[op].results)].sum()) + graph.ops[op].workspace
    own -= sum(graph.values[result].bytes for _, result in graph.ops[op].in_place)
    return problem, budget - always - own
