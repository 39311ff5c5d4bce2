# SPDX-License-Identifier: Apache-2.0
"""Rotor's dynamic program for chains (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, 2019), over
blocks with a menu each (Rockmate: Zhao et al., ICML 2023).

With the state that block i starts from in memory, and m bytes besides, blocks i to j are run
forward and backward for C(i, j, m), the least of

    F(i..s-1) + C(s, j, m - state[s-1]) + C(i, s-1, m)    forget all but the state before block s
    F(i) + again(o) + C(i+1, j, m - kept(o))              keep of block i what option o says

An option is what a minimum cut at some price keeps of the block. Equal sequences of blocks, by the
hash of all their numbers, are solved once, so that a uniform chain of L blocks takes L steps and
not L². Memory is counted in a few hundred units; what comes out is judged by the simulator, and
the amount that the program may use is raised as long as it fits.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from hlo_remat.planner.blocks import Blocks, find_blocks
from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Execution, Recompute, simulate
from hlo_remat.planner.stages import just_in_time, without_dead
from hlo_remat.planner.tradeoff import program_boundary

UNITS = 300
MAX_DIFFERENT = 3_000
PRICES = 6
Offer = Callable[[list[Recompute]], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """`kept`: bytes of a block that stay until its backward; `run`, `need`: bytes besides the
    state that it starts from while its forward runs and while its backward does; `again`: cost of
    what the backward makes again; `ops`: these."""

    kept: int
    run: int
    need: int
    again: float
    ops: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """`cost`: of the forward; `leaf_cost`: of that part which only the backward reads;
    `state`: bytes handed over; `run`: bytes besides them while the forward runs and keeps nothing;
    `base`: bytes that are live anyway when the backward starts."""

    cost: float
    leaf_cost: float
    state: int
    run: int
    base: int
    menu: tuple[Option, ...]


class ChainProgram:
    """C(i, j, m) for all that is asked, in units of bytes."""

    def __init__(self, blocks: list[Block], budget: int):
        self.blocks = blocks
        sizes = [n for b in blocks for n in (b.state, b.run, b.base) if n]
        sizes += [n for b in blocks for o in b.menu for n in (o.kept, o.run, o.need) if n]
        exact = int(np.gcd.reduce(np.array(sizes or [1], np.int64)))
        self.unit = exact if budget // exact <= 2 * UNITS else -(-budget // UNITS)
        self.levels = budget * 5 // 4 // self.unit + 1 if self.unit != exact else budget // exact
        ids: dict[object, int] = {}
        kind = [
            ids.setdefault((b.cost, b.leaf_cost, b.state, b.run, b.base, _shape(b)), len(ids))
            for b in blocks
        ]
        # Sequences with one id have the same numbers.
        count = len(blocks)
        self.sequence = np.zeros((count, count), np.int64)
        pairs: dict[tuple[int, int], int] = {}
        for i in range(count):
            so_far = -1
            for j in range(i, count):
                so_far = pairs.setdefault((so_far, kind[j]), len(pairs))
                self.sequence[i, j] = so_far
        self.different = len(pairs)
        self.prefix = np.concatenate([[0.0], np.cumsum([b.cost for b in blocks])])
        self.state = np.array([self._units(b.state) for b in blocks])
        self.is_known = np.zeros(self.different, bool)
        self.table = np.zeros((0, 0))

    def _units(self, size: int) -> int:
        return -(-size // self.unit)

    def solve(self) -> None:
        count = len(self.blocks)
        self.table = np.full((self.different, self.levels + 1), np.inf)
        for length in range(1, count + 1):
            for i in range(count - length + 1):
                number = self.sequence[i, i + length - 1]
                if not self.is_known[number]:
                    rows = self._alternatives(i, i + length - 1)
                    self.table[number] = rows.min(axis=0)
                    self.is_known[number] = True

    def of(self, i: int, j: int) -> np.ndarray:
        """C(i, j, .)"""
        return self.table[self.sequence[i, j]]

    def _alternatives(self, i: int, j: int) -> np.ndarray:
        """What C(i, j, .) is the least of: options of block i, then splits."""
        levels = np.arange(self.levels + 1)
        block, base = self.blocks[i], self.blocks[j].base
        rows = np.full((len(block.menu) + j - i, self.levels + 1), np.inf)
        for index, option in enumerate(block.menu):
            row = rows[index]
            kept = self._units(option.kept)
            if i == j:
                row[:] = block.leaf_cost + option.again
                least = option.need
            else:
                if kept <= self.levels:
                    row[kept:] = self.of(i + 1, j)[: self.levels + 1 - kept]
                row += block.cost + option.again
                least = max(option.need, option.run + base)
            row[levels < self._units(least)] = np.inf
        if i == j:
            return rows
        s = np.arange(i + 1, j + 1)
        own = [max(b.run, b.state) for b in self.blocks[i:j]]
        if i:
            own[0] = max(block.run - self.blocks[i - 1].state, block.state)
        floor = np.maximum.accumulate([self._units(n + base) for n in own])
        left = levels[None, :] - self.state[s - 1][:, None]
        splits = self.table[self.sequence[s, j][:, None], left]  # left < 0 is infinite below
        splits += self.table[self.sequence[i, s - 1]] + (self.prefix[s] - self.prefix[i])[:, None]
        splits[(left < 0) | (levels[None, :] < floor[:, None])] = np.inf
        rows[len(block.menu) :] = splits
        return rows

    def events(self, level: int) -> list[tuple[str, int, int]]:
        """("forward" or "backward", block, option) in order, for the whole chain at that level."""
        found: list[tuple[str, int, int]] = []
        todo: list[tuple[str, int, int, int]] = [("solve", 0, len(self.blocks) - 1, level)]
        while todo:
            what, i, j, m = todo.pop()
            if what != "solve":
                found.append((what, i, j))
                continue
            which = int(self._alternatives(i, j)[:, m].argmin())
            menu = self.blocks[i].menu
            if which < len(menu):
                found.append(("forward", i, which))
                todo.append(("backward", i, which, 0))
                if i < j:
                    left = m - self._units(menu[which].kept)
                    todo.append(("solve", i + 1, j, left))
                continue
            s = i + 1 + which - len(menu)
            found += [("forward", k, -1) for k in range(i, s)]
            todo.append(("solve", i, s - 1, m))
            todo.append(("solve", s, j, m - self._units(self.blocks[s - 1].state)))
        return found


def _shape(block: Block) -> tuple[tuple[float, ...], ...]:
    return tuple((o.kept, o.run, o.need, o.again) for o in block.menu)


def search(graph: Graph, budget: int, end: float, offer: Offer) -> None:
    """Offers plans of chains of few blocks, then of more. Stops at `end`, on `time.monotonic`'s
    clock, or when `offer` says that nothing better can be."""
    found = find_blocks(graph)
    if found is None:
        return
    done = 0
    for most in (24, 60, 2000):
        blocks = found.merged(most)
        if len(blocks) == done or (len(blocks) > 120 and most > 60 and not _few(graph, blocks)):
            return
        done = len(blocks)
        if time.monotonic() > end or _solve(graph, budget, blocks, end, offer):
            return


def _few(graph: Graph, blocks: Blocks) -> bool:
    """Whether the blocks' lengths repeat: a cheap sign that sequences of them do."""
    lengths = np.diff(blocks.forward)
    return len(blocks) <= 1500 and len(np.unique(lengths)) <= 4


def _solve(graph: Graph, budget: int, blocks: Blocks, end: float, offer: Offer) -> bool:
    menus = measure(graph, blocks)
    program = ChainProgram(menus, budget)
    if program.different > MAX_DIFFERENT:
        return False
    program.solve()
    possible = np.isfinite(program.of(0, len(menus) - 1))
    if not possible.any():
        return False
    low, level = int(possible.argmax()), program.levels
    high = level
    while low <= high:
        recomputes = plan_of(graph, blocks, menus, program.events(level))
        if offer(recomputes) or time.monotonic() > end:
            return True
        if simulate(graph, recomputes).peak <= budget:
            low = level + 1
        else:
            high = level - 1
        level = (low + high + 1) // 2
    return False


def measure(graph: Graph, blocks: Blocks) -> list[Block]:
    """The numbers of each block, from the simulator: the program as it is, its forward alone, and
    plans of minimum cuts at several prices, of which each block takes its own part."""
    turn = blocks.forward[-1]
    count = len(blocks)
    view = _Parts(graph, blocks)
    problem = program_boundary(graph)
    total_bytes, total_cost = int(problem.bytes.sum()), float(problem.cost.sum())
    price = total_cost / max(total_bytes, 1) if total_cost else 0.0
    chosen: list[list[int]] = [[]]
    for step in range(PRICES if price else 0):
        again = problem.cut(price * 8.0 ** (step - PRICES // 2)).again.tolist()
        if again not in chosen:
            chosen.append(again)
    menus: list[list[Option]] = [[] for _ in range(count)]
    base: list[int] = []
    for again in chosen:
        states = {v for state in blocks.state for v in state}
        again = [o for o in again if states.isdisjoint(graph.ops[o].results)]
        plan = just_in_time(graph, [0, turn], [[], again])
        execution = simulate(graph, plan)
        kept, run, need, bases = view.measured(execution)
        base = base or bases
        parts: list[list[int]] = [[] for _ in range(count)]
        for o in again:
            parts[int(view.block_of_op[o])].append(o)
        for i in range(count):
            cost = float(sum(graph.ops[o].cost for o in parts[i]))
            option = Option(kept[i], run[i], need[i], cost, tuple(parts[i]))
            if all(option.ops != other.ops for other in menus[i]):
                menus[i].append(option)
    forward = view.forward_runs()
    return [
        Block(
            float(graph.cost[blocks.forward[i] : blocks.forward[i + 1]].sum()),
            view.leaf_cost(i),
            int(sum(graph.bytes[v] for v in blocks.state[i])),
            forward[i],
            base[i],
            tuple(_undominated(menus[i])),
        )
        for i in range(count)
    ]


def _undominated(menu: list[Option]) -> list[Option]:
    def key(o: Option) -> tuple[float, ...]:
        return o.kept, o.run, o.need, o.again

    return [
        o
        for o in menu
        if not any(
            key(p) != key(o) and all(a <= b for a, b in zip(key(p), key(o), strict=True))
            for p in menu
        )
    ]


class _Parts:
    """Which block each op and value belongs to."""

    def __init__(self, graph: Graph, blocks: Blocks):
        self.graph = graph
        self.blocks = blocks
        turn = blocks.forward[-1]
        cuts = np.array(blocks.forward[1:-1])
        self.block_of_op = np.searchsorted(cuts, np.arange(len(graph.ops)), side="right")
        made = graph.definer
        last = np.full(len(graph.values), -1, np.int64)
        read, reader = graph.operands.gather(np.arange(turn))
        np.maximum.at(last, graph.root[read], reader)
        can = np.array([op.is_recomputable for op in graph.ops], bool)
        is_state = np.zeros(len(graph.values), bool)
        is_state[[v for state in blocks.state for v in state]] = True
        leaves = np.searchsorted(cuts, last, "right") > np.searchsorted(cuts, made, "right")
        # What isn't a state and is read in later blocks is there for all of them.
        is_own = (made >= 0) & (made < turn) & can[made] & (is_state | ~leaves)
        self.block_of_value = np.where(is_own, self.block_of_op[made], -1)

    def measured(self, execution: Execution) -> tuple[list[int], list[int], list[int], list[int]]:
        """For each block its bytes kept, those while it runs forward and backward, and those live
        anyway when its backward starts."""
        blocks, count = self.blocks, len(self.blocks)
        runs = len(execution.sequence)
        position = np.cumsum(execution.is_first) - execution.is_first
        owner = self.block_of_value[execution.value]
        outside = np.flatnonzero(owner < 0)
        rest = _sum(runs, execution.birth[outside], execution.end[outside], execution.size[outside])
        every = _sum(runs, execution.birth, execution.end, execution.size)
        special = execution.memory - every
        mine = np.flatnonzero(owner >= 0)
        k = owner[mine]
        birth, end, size = execution.birth[mine], execution.end[mine], execution.size[mine]
        # What is made again stands before the op that reads it.
        starts = np.searchsorted(position, blocks.forward[:-1])
        ends = np.searchsorted(position, blocks.forward[1:]) - 1
        back_start = np.searchsorted(position, blocks.backward)
        back_end = np.append(runs, back_start[:-1]) - 1
        own = _sum(runs, np.maximum(birth, starts[k]), np.minimum(end, ends[k]), size)
        own += _sum(runs, np.maximum(birth, back_start[k]), np.minimum(end, back_end[k]), size)
        total = own + rest + special
        inner = own + special
        run, need, base, kept = [], [], [], []
        for i in range(count):
            f = inner[starts[i] : ends[i] + 1]
            run.append(int(f.max(initial=0)))
            b = total[back_start[i] : back_end[i] + 1]
            need.append(int(b.max(initial=0)))
            here = min(int(back_start[i]), runs - 1)
            base.append(int(rest[here]))
            stays = (k == i) & (birth <= ends[i]) & (end > ends[i])
            kept.append(int(size[stays].sum()))
        return kept, run, need, base

    def forward_runs(self) -> list[int]:
        """For each block the bytes while it runs, where the forward runs alone."""
        graph, turn = self.graph, self.blocks.forward[-1]
        later = graph.definer >= turn  # what no op makes here is an argument, and no view
        values = (
            dataclasses.replace(v, alias_of=None) if later[i] else v
            for i, v in enumerate(graph.values)
        )
        alone = Graph(tuple(values), graph.ops[:turn], graph.loops)
        execution = simulate(alone)
        position = np.arange(turn)
        owner = self.block_of_value[execution.value]
        outside = np.flatnonzero((owner < 0) | (alone.definer[execution.value] < 0))
        rest = _sum(turn, execution.birth[outside], execution.end[outside], execution.size[outside])
        own = execution.memory - rest
        block = self.block_of_op[position]
        found = np.zeros(len(self.blocks), np.int64)
        np.maximum.at(found, block, own)
        return [int(n) for n in found]

    def leaf_cost(self, i: int) -> float:
        """The cost of the ops of block `i` without which its backward can't run."""
        graph, blocks = self.graph, self.blocks
        start, stop = blocks.forward[i], blocks.forward[i + 1]
        needed: set[int] = set()
        for p in range(blocks.backward[i], blocks.backward_end(i, len(graph.ops))):
            needed.update(graph.ops[p].operands)
        cost = 0.0
        for p in reversed(range(start, stop)):
            if not needed.isdisjoint(graph.ops[p].results):
                needed.update(graph.ops[p].operands)
                cost += graph.ops[p].cost
        return cost


def _sum(runs: int, birth: np.ndarray, end: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Bytes live at each run, of instances with these ranges (empty ones count nothing)."""
    change = np.zeros(runs + 1, np.int64)
    use = end >= birth
    np.add.at(change, birth[use], size[use])
    np.add.at(change, end[use] + 1, -size[use])
    return np.cumsum(change)[:runs]


def plan_of(
    graph: Graph, blocks: Blocks, menus: list[Block], events: list[tuple[str, int, int]]
) -> list[Recompute]:
    """The runs that a chain's events mean: a block's first forward is the program's own."""
    again: list[Recompute] = []
    chosen: list[list[int]] = [[] for _ in menus]
    pending: list[int] = []
    seen: set[int] = set()
    for what, i, option in events:
        if what == "forward":
            if i in seen:
                pending.append(i)
            seen.add(i)
            continue
        before = blocks.backward[i]
        for k in pending:
            again += [
                Recompute(before, o)
                for o in range(blocks.forward[k], blocks.forward[k + 1])
                if graph.ops[o].is_recomputable and before < len(graph.ops)
            ]
        pending = []
        chosen[i] = list(menus[i].menu[option].ops)
    order = [i for i in reversed(range(len(menus))) if blocks.backward[i] < len(graph.ops)]
    starts = [0, *(blocks.backward[i] for i in order)]
    late = just_in_time(graph, starts, [[], *(chosen[i] for i in order)])
    merged = sorted([*again, *late], key=lambda r: r.before)
    return without_dead(graph, merged)
