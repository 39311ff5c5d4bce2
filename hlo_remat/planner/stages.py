# SPDX-License-Identifier: Apache-2.0
"""A program cut into stages, and the runs that follow from what each stage recomputes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Recompute, can_replay


def just_in_time(
    graph: Graph, starts: Sequence[int], chosen: Sequence[Collection[int]]
) -> list[Recompute]:
    """The runs in which stage `k`, the positions from `starts[k]` to the next start, runs the ops
    `chosen[k]` again: each once, just before the first run in the stage that reads a result of it,
    or at the stage's end if that is read later; ops of a loop in each loop that reads them. What
    nothing reads doesn't run. Views of what runs again are taken again.
    """
    found: list[Recompute] = []
    ends = [*starts[1:], len(graph.ops)]
    for start, end, ops in zip(starts, ends, chosen, strict=True):
        if not ops:
            continue
        wanted = set(ops)
        done: dict[int, bool] = {}
        last: int | None = None
        for position in range(start, end):
            loop = graph.ops[position].loop
            if last is not None and loop != last:  # what ran in a loop was of its trips
                done = {op: ran for op, ran in done.items() if graph.ops[op].loop is None}
            last = loop
            makers = [int(graph.definer[v]) for v in graph.ops[position].operands]
            _ensure(graph, position, makers, start, wanted, done, found)
        if end < len(graph.ops):
            _ensure(graph, end, sorted(wanted), start, wanted, done, found)
    if graph.loops:
        found = _hoist(graph, found)
    return without_dead(graph, found)


def _ensure(
    graph: Graph,
    position: int,
    ops: Sequence[int],
    start: int,
    wanted: Collection[int],
    done: dict[int, bool],
    found: list[Recompute],
) -> None:
    """Runs `ops` again at `position` where they are wanted, after what they need; `done` says of
    each op seen in this stage whether it ran."""

    def pending(candidates: Sequence[int]) -> list[int]:
        return [
            m
            for m in candidates
            if 0 <= m < start and m not in done and (m in wanted or is_view(graph, m))
        ]

    todo = pending(ops)[::-1]
    while todo:
        op = todo[-1]
        makers = [int(graph.definer[v]) for v in graph.ops[op].operands]
        first = pending(makers)[:1]
        if op not in done and first:
            todo.append(first[0])
            continue
        todo.pop()
        if op not in done:
            done[op] = op in wanted or any(done.get(m, False) for m in makers)
            if done[op]:
                found.append(Recompute(position, op))


def without_dead(graph: Graph, recomputes: Sequence[Recompute]) -> list[Recompute]:
    """`recomputes` without the runs whose results nothing reads before they are made again."""
    needed = {v for v, value in enumerate(graph.values) if value.is_output}
    kept: list[Recompute] = []
    left = list(recomputes)
    for position in reversed(range(len(graph.ops))):
        needed.difference_update(graph.ops[position].results)
        needed.update(graph.ops[position].operands)
        while left and left[-1].before == position:
            r = left.pop()
            if not needed.isdisjoint(graph.ops[r.op].results):
                needed.difference_update(graph.ops[r.op].results)
                needed.update(graph.ops[r.op].operands)
                kept.append(r)
    return kept[::-1]


def is_view(graph: Graph, op: int) -> bool:
    """Whether all that the op makes are views."""
    results = graph.ops[op].results
    return bool(results) and all(graph.values[v].alias_of is not None for v in results)


def _hoist(graph: Graph, recomputes: list[Recompute]) -> list[Recompute]:
    """Puts what can't run again within a loop in front of it, and leaves out what can't there:
    its readers read what the program itself has made."""
    loop_start: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        if op.loop is not None:
            loop_start.setdefault(op.loop, position)
    moved = []
    for r in recomputes:
        loop, place = graph.ops[r.before].loop, r.before
        if loop is not None and not can_replay(graph, r.op, place):
            place = loop_start[loop] - 1
        if r.op < place and can_replay(graph, r.op, place):
            moved.append(Recompute(place, r.op))
    return sorted(moved, key=lambda r: r.before)
