# SPDX-License-Identifier: Apache-2.0
"""All that a tiny graph can do: a pebble game with recomputing (Sethi, 1975), played to its end by
Dijkstra's shortest paths.

A state is the next op of the program and the set of values in memory. A move drops a value, runs
the next op, or runs an earlier one again, at its cost, with what it reads in memory and room for
what it makes. No schedule is missed: keeping two instances of a value, or making one again that is
there, never helps. So the cheapest way to the end is the optimum, and no way proves that no plan
exists. Oracle in the tests: all sequences of a few runs.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Recompute
from hlo_remat.planner.stages import is_view, without_dead

MAX_OPS = 14
MAX_VALUES = 16
MAX_STATES = 20_000


@dataclasses.dataclass(frozen=True)
class Result:
    """The optimal plan, or None with `is_complete` where none exists. Neither if the states ran
    out."""

    recomputes: list[Recompute] | None
    is_complete: bool


def is_tiny(graph: Graph) -> bool:
    """Whether `search` takes the graph. Loops, and views at a cost, it leaves to others."""
    return (
        len(graph.ops) <= MAX_OPS
        and len(graph.values) <= MAX_VALUES
        and not graph.loops
        and all(v.is_savable for v in graph.values)
        and not any(is_view(graph, i) and op.cost for i, op in enumerate(graph.ops))
        and not any(_is_mixed(graph, i) for i in range(len(graph.ops)))
    )


def _is_mixed(graph: Graph, op: int) -> bool:
    """Whether an op makes both views and values of their own, or a view that can't be retaken."""
    aliases = [graph.values[v].alias_of is not None for v in graph.ops[op].results]
    return any(aliases) and (not all(aliases) or not graph.ops[op].is_recomputable)


def search(graph: Graph, budget: int) -> Result:
    """The plan of least cost within `budget` bytes."""
    game = _Game(graph, budget)
    start = (0, game.arguments)
    best: dict[tuple[int, int], float] = {start: 0.0}
    came: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    heap = [(0.0, 0, start)]
    count = 0
    done: set[tuple[int, int]] = set()
    while heap:
        cost, _, state = heapq.heappop(heap)
        if state in done:
            continue
        done.add(state)
        if state[0] == len(graph.ops) and state[1] & game.outputs == game.outputs:
            return Result(_path(graph, came, state), True)
        if len(done) > MAX_STATES:
            return Result(None, False)
        for op, live, extra in game.moves(*state):
            position = state[0] + (op == state[0])
            following = position, live
            if cost + extra < best.get(following, float("inf")):
                best[following] = cost + extra
                came[following] = state, op
                count += 1
                heapq.heappush(heap, (cost + extra, count, following))
    return Result(None, True)


class _Game:
    """The moves: live values are bits of an integer, views are what they look into."""

    def __init__(self, graph: Graph, budget: int):
        self.graph = graph
        self.budget = budget
        self.size = [int(b) for b in graph.bytes]
        self.reads = [self._bits(op.operands) for op in graph.ops]
        self.makes = [
            0 if is_view(graph, i) else self._bits(op.results) for i, op in enumerate(graph.ops)
        ]
        self.outputs = self._bits(v for v, value in enumerate(graph.values) if value.is_output)
        arguments = [v for v in range(len(graph.values)) if graph.definer[v] < 0]
        self.arguments = self._bits(arguments)
        self.stuck = self._bits(v for v in arguments if not graph.values[v].is_donated)
        self.in_place = [
            [(1 << int(graph.root[o]), graph.values[r].bytes) for o, r in op.in_place]
            for op in graph.ops
        ]

    def _bits(self, values: Iterable[int]) -> int:
        bits = 0
        for v in values:
            bits |= 1 << int(self.graph.root[v])
        return bits

    def bytes(self, live: int) -> int:
        return sum(size for v, size in enumerate(self.size) if live >> v & 1)

    def moves(self, position: int, live: int) -> Iterator[tuple[int, int, float]]:
        """(op, live after it, cost); op -1 for a drop."""
        ops = self.graph.ops
        for v in range(len(self.size)):
            if live >> v & 1 and not self.stuck >> v & 1:
                yield -1, live & ~(1 << v), 0.0
        for op in range(min(position + 1, len(ops))):
            is_first = op == position
            if not is_first and (
                position == len(ops) or not ops[op].is_recomputable or not self.makes[op]
            ):
                continue
            if self.reads[op] & ~live:
                continue
            used = self.bytes(live | self.makes[op]) + ops[op].workspace
            after = live | self.makes[op]
            cost = 0.0 if is_first else ops[op].cost
            if used <= self.budget:
                yield op, after, cost
                continue
            # In place: what the operand was is gone.
            for operand, size in self.in_place[op]:
                if operand & ~self.stuck & ~self.makes[op]:
                    used -= size
                    after &= ~operand
            if used <= self.budget:
                yield op, after, cost


def _path(
    graph: Graph, came: dict[tuple[int, int], tuple[tuple[int, int], int]], state: tuple[int, int]
) -> list[Recompute]:
    """The runs on the way to a state, and views of what they make."""
    runs: list[Recompute] = []
    while state in came:
        state, op = came[state]
        if 0 <= op < state[0]:
            runs.append(Recompute(state[0], op))
    runs.reverse()
    views = [i for i in range(len(graph.ops)) if is_view(graph, i)]
    with_views = []
    for r in runs:
        with_views.append(r)
        stale = set(graph.ops[r.op].results)
        for i in views:
            if i < r.before and not stale.isdisjoint(graph.ops[i].operands):
                stale.update(graph.ops[i].results)
                with_views.append(Recompute(r.before, i))
    return without_dead(graph, with_views)
