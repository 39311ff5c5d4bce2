# SPDX-License-Identifier: Apache-2.0
"""A training step as a chain: blocks of the forward, and for each the part of the backward that
reads what it made. Found from positions and reads alone, without labels."""

from __future__ import annotations

import dataclasses

import numpy as np

from hlo_remat.planner.graph import Graph, Ints
from hlo_remat.planner.simulate import simulate
from hlo_remat.planner.stages import is_view


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks:
    """The forward of block `i` is at positions `forward[i]` to `forward[i + 1]`, its backward at
    `backward[i]` to `backward[i - 1]` (block 0's to the end). `state[i]` are the values that block
    `i` hands over to the forward of the next ones, other than what all of them read."""

    forward: list[int]
    backward: list[int]
    state: list[list[int]]

    def __len__(self) -> int:
        return len(self.backward)

    def backward_end(self, i: int, ops: int) -> int:
        return self.backward[i - 1] if i else ops

    def merged(self, most: int) -> Blocks:
        """The same in at most `most` blocks."""
        if len(self) <= most:
            return self
        last = [(g + 1) * len(self) // most - 1 for g in range(most)]
        first = [0, *(i + 1 for i in last[:-1])]
        return Blocks(
            [self.forward[i] for i in first] + [self.forward[-1]],
            [self.backward[i] for i in last],
            [self.state[i] for i in last],
        )


def pivot(graph: Graph) -> int:
    """Where the forward ends: the boundary, else the last position with most bytes live."""
    if graph.boundary is not None:
        return graph.boundary
    memory = simulate(graph).memory
    return graph.moment(len(memory) - 1 - int(memory[::-1].argmax())) if len(memory) else 0


def find_blocks(graph: Graph) -> Blocks | None:
    """The finest chain of blocks: cuts of the forward that the fewest values cross. None where
    there are no two blocks."""
    turn = pivot(graph)
    made_at, last_forward = _forward_ranges(graph, turn)
    sized = np.flatnonzero((graph.bytes > 0) & (made_at >= 0) & (last_forward > made_at))
    change = np.zeros(turn + 1, np.int64)
    np.add.at(change, made_at[sized], 1)
    np.add.at(change, last_forward[sized], -1)
    crossing = np.cumsum(change)[: turn - 1]  # values made up to p that ops after p read
    if len(crossing) < 2:
        return None
    fewest = int(np.sort(crossing)[len(crossing) // 20])
    cuts = [int(p) for p in np.flatnonzero(crossing <= fewest) if crossing[p] > 0]
    if not cuts:
        return None
    shared = set(_shared(graph, sized, made_at, last_forward, cuts))
    starts, backward, states = [0], [], []
    reads = _first_backward_reads(graph, turn)
    order = sized[np.argsort(made_at[sized], kind="stable")]
    live: set[int] = set()
    nxt = 0
    # The first backward reader of what is made up to a cut and isn't read in the forward after it.
    earliest = len(graph.ops)
    by_end = sorted(
        (max(int(last_forward[v]), int(made_at[v])), v)
        for v in range(len(graph.values))
        if made_at[v] >= 0 and graph.bytes[v] > 0
    )
    at = 0
    for cut in cuts:
        while nxt < len(order) and made_at[order[nxt]] <= cut:
            live.add(int(order[nxt]))
            nxt += 1
        live = {v for v in live if last_forward[v] > cut}
        while at < len(by_end) and by_end[at][0] <= cut:
            earliest = min(earliest, int(reads[by_end[at][1]]))
            at += 1
        starts.append(cut + 1)
        states.append(sorted(v for v in live if v not in shared))
        backward.append(earliest)
    keep = [
        i
        for i in range(len(cuts))
        if backward[i] > turn
        and states[i]
        and (i + 1 == len(cuts) or backward[i] > backward[i + 1])
    ]
    if not keep:
        return None
    return Blocks(
        [0, *(starts[i + 1] for i in keep), turn],
        [backward[i] for i in keep] + [turn],
        [states[i] for i in keep] + [[]],
    )


def _forward_ranges(graph: Graph, turn: int) -> tuple[Ints, Ints]:
    """For each value made before `turn` its position and that of its last reader before `turn`;
    -1 for others."""
    count = len(graph.values)
    made_at = np.where(graph.definer < turn, graph.definer, -1)
    last = np.full(count, -1, np.int64)
    read, reader = graph.operands.gather(np.arange(turn))
    np.maximum.at(last, graph.root[read], reader)
    return made_at, last


def _first_backward_reads(graph: Graph, turn: int) -> Ints:
    """For each value the first position from `turn` on that reads it, the end without one."""
    first = np.full(len(graph.values), len(graph.ops), np.int64)
    read, reader = graph.operands.gather(np.arange(turn, len(graph.ops)))
    real = np.array([not is_view(graph, int(o) + turn) for o in range(len(graph.ops) - turn)], bool)
    if len(read):
        use = real[reader]
        np.minimum.at(first, graph.root[read[use]], reader[use] + turn)
    return first


def _shared(graph: Graph, values: Ints, made_at: Ints, last: Ints, cuts: list[int]) -> list[int]:
    """Values that cross more than half of the cuts, or that may not be made again."""
    at = np.array(cuts)
    crossed = np.searchsorted(at, last[values]) - np.searchsorted(at, made_at[values])
    often = crossed > max(1, len(cuts) // 2)
    fixed = np.array([not graph.ops[graph.definer[v]].is_recomputable for v in values], bool)
    return [int(v) for v in values[often | fixed]]
