# SPDX-License-Identifier: Apache-2.0
"""One moment of a program: what is kept over it, and what is made again after it.

The problem: when op z runs for the first time, each value that later ops need is in memory, at its
bytes, or is made again, at its op's cost, from what is in memory or made again. That is the partial
order of a minimum cut (the min-cut of PyTorch's AOTAutograd, Horace He and Shangdi Yu 2022, with
prices in place of infinite capacities): for a price of each byte kept

    source -> in(o)   the cost of o; infinite where o may not run again
    in(o) -> out(v)   price * bytes of v, which o makes; infinite where v may not be kept
    out(u) -> in(o)   infinite, where o reads u
    out(v) -> sink    infinite, where later ops need v

and the cut is the cheapest choice. All prices together give the lower hull of the tradeoff, and
for one budget the dual bound. With the budget as a row it is a small integer program, which HiGHS
solves where the hull leaves a gap. Oracle in the tests: all subsets.
"""

from __future__ import annotations

import dataclasses
import functools
import time

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.sparse.csgraph

from hlo_remat.planner.graph import Graph, Ints
from hlo_remat.planner.stages import is_view

# maximum_flow has 32-bit capacities, and its flows must fit too.
_CAPACITY = 2**30
_PRICES = 16
LARGE = 20_000  # ops, from which on there is no integer program


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """A solution: `kept` values and ops to run `again`, with their bytes and cost, and a cost
    below which no choice of at most the budget's bytes is."""

    kept: Ints
    again: Ints
    saved_bytes: int
    cost: float
    lower_bound: float


@dataclasses.dataclass(frozen=True, eq=False)
class Boundary:
    """The problem at one moment, over the values that are made before it.

    - `values`, `ops`: indices into the graph; ops that have run by then and could run again.
    - `must`: for each of `values` whether it has to be kept, `may` whether it can be.
    - `need`: for each of `values` whether it is needed later.
    - `bytes`, `cost`: of `values` and `ops`.
    - `maker`: for each of `values` the index into `ops` of what makes it, -1 if nothing may.
    - `reader`, `read`: pairs of indices, `ops[reader]` reads `values[read]`.
    """

    values: Ints
    ops: Ints
    bytes: Ints
    cost: np.ndarray
    must: np.ndarray
    may: np.ndarray
    need: np.ndarray
    maker: Ints
    reader: Ints
    read: Ints

    @functools.cached_property
    def must_bytes(self) -> int:
        return int(self.bytes[self.must].sum())

    def cut(self, price: float) -> Choice:
        """The cheapest choice where each byte kept costs `price`."""
        values, ops = len(self.values), len(self.ops)
        out, inside = 2 + np.arange(values), 2 + values + np.arange(ops)
        keep = self.bytes * price
        keep[self.must] = 0.0
        made = self.maker >= 0
        # The choice that makes all again that can be bounds the flow, at half of what is endless.
        # Capacities are rounded down, so that the flow is a lower bound.
        most = float(self.cost.sum() + keep[~made].sum()) or float(keep.max(initial=0.0)) or 1.0
        scale = _CAPACITY / 2 / most
        endless = np.int32(_CAPACITY)
        keep_capacity = np.minimum(np.floor(keep * scale), _CAPACITY)
        keep_capacity[~(self.may | self.must)] = _CAPACITY
        # A value that nothing may make again hangs on the source.
        tail = np.where(made, inside[self.maker] if ops else 0, 0)
        need = out[self.need]
        rows = np.concatenate([np.zeros(ops), tail, out[self.read], need])
        columns = np.concatenate([inside, out, inside[self.reader], np.ones(len(need))])
        capacity = np.concatenate(
            [
                np.floor(self.cost * scale),
                keep_capacity,
                np.full(len(self.read), endless),
                np.full(len(need), endless),
            ]
        )
        shape = (2 + values + ops,) * 2
        network = scipy.sparse.csr_array(
            (capacity.astype(np.int32), (rows.astype(np.int32), columns.astype(np.int32))),
            shape=shape,
        )
        result = scipy.sparse.csgraph.maximum_flow(network, 0, 1)
        residual = network - result.flow
        residual.data = np.where(residual.data > 0, 1, 0)
        residual.eliminate_zeros()
        # What still reaches the sink is on its side: the cut nearest to the sink runs least again.
        order = scipy.sparse.csgraph.breadth_first_order(
            residual.T.tocsr(), 1, directed=True, return_predecessors=False
        )
        on_sink_side = np.zeros(shape[0], bool)
        on_sink_side[order] = True
        available, again = on_sink_side[out], on_sink_side[inside]
        kept = available & ~np.where(made, again[self.maker] if ops else False, False)
        kept |= self.must
        saved = int(self.bytes[kept].sum())
        bound = float(result.flow_value) / scale
        return Choice(
            self.values[kept], self.ops[again], saved, float(self.cost[again].sum()), bound
        )

    def price(self, budget: int, seconds: float = 10.0) -> tuple[Choice | None, float]:
        """A choice that keeps at most `budget` bytes by minimum cuts at several prices, None if no
        price has one; and the best bound of their dual values, which any choice within the budget
        costs at least. For problems of any size."""
        end = time.monotonic() + seconds
        total = float(self.cost.sum())
        low, high, price = 0.0, 0.0, total / max(int(self.bytes.sum()), 1)
        little: Choice | None = None
        much: Choice | None = None
        bound = 0.0
        for _ in range(_PRICES if total else 0):
            choice = self.cut(price)
            bound = max(bound, choice.lower_bound - price * (budget - self.must_bytes))
            if choice.saved_bytes > budget:
                low, little = price, choice
            else:
                high, much = price, choice
            price = (low + high) / 2 if high else low * 4
            if time.monotonic() > end:
                break
        if much is None or little is None:
            return much, bound
        # Cuts of neighbouring prices may lie far apart: up to some op the one, then the other.
        first, last = 0, len(self.ops)
        of_much, of_little = (np.isin(self.ops, c.again) for c in (much, little))
        while last - first > 1:
            middle = (first + last) // 2
            is_before = np.arange(len(self.ops)) < middle
            mixed = self.choice(np.where(is_before, of_much, of_little))
            if mixed is not None and mixed.saved_bytes <= budget:
                last = middle
                much = min(much, mixed, key=lambda c: c.cost)
            else:
                first = middle
        return dataclasses.replace(much, lower_bound=max(0.0, bound)), bound

    def choice(self, again: np.ndarray) -> Choice | None:
        """What is kept where those of `ops` run again that `again` says; None if it may not be."""
        wanted = self.need | self.must
        wanted[self.read[again[self.reader]]] = True
        is_made = self.maker >= 0
        is_made[is_made] = again[self.maker[is_made]]
        kept = wanted & ~is_made | self.must
        if (kept & ~self.may & ~self.must).any():
            return None
        saved = int(self.bytes[kept].sum())
        return Choice(self.values[kept], self.ops[again], saved, float(self.cost[again].sum()), 0.0)

    def solve(self, budget: int, seconds: float = 10.0) -> Choice | None:
        """The cheapest choice that keeps at most `budget` bytes; None if none was found."""
        if len(self.ops) > LARGE:
            return self.price(budget, seconds)[0]
        choice = self._solve(budget, seconds, 1.0, is_integer=True)
        if choice is None or choice.saved_bytes <= budget:
            return choice
        within = self._solve(budget, seconds, -1.0, is_integer=True)
        return within and dataclasses.replace(within, lower_bound=choice.lower_bound)

    def relax(self, budget: int, seconds: float = 10.0) -> float:
        """What every choice that keeps at most `budget` bytes costs at least, by the linear
        relaxation."""
        choice = self._solve(budget, seconds, 1.0, is_integer=False)
        return 0.0 if choice is None else choice.lower_bound

    def _solve(self, budget: int, seconds: float, slack: float, is_integer: bool) -> Choice | None:
        values, ops = len(self.values), len(self.ops)
        if not values:
            return Choice(self.values, self.ops[:0], 0, 0.0, 0.0)
        count = len(self.read)
        need = np.flatnonzero(self.need)
        again_of = np.flatnonzero(self.maker[self.read] >= 0)
        have = np.flatnonzero(self.maker[need] >= 0)
        rows = np.concatenate([np.arange(count), np.arange(count), again_of])
        columns = np.concatenate(
            [values + self.reader, self.read, values + self.maker[self.read[again_of]]]
        )
        factors = np.concatenate([-np.ones(count), np.ones(count), np.ones(len(again_of))])
        rows = np.concatenate([rows, count + np.arange(len(need)), count + have])
        columns = np.concatenate([columns, need, values + self.maker[need[have]]])
        factors = np.concatenate([factors, np.ones(len(need) + len(have))])
        sized = np.flatnonzero(self.bytes > 0)
        # Bytes are whole multiples of `unit`: with half of it on top nothing more fits, and HiGHS's
        # tolerance takes nothing away. Where that is too little, the bound pays for more.
        unit = int(np.gcd.reduce(self.bytes[sized])) if len(sized) else 1
        room = float(budget // unit)
        limit = room + max(0.5, 1e-6 * room) * slack
        scale = max(1.0, limit / 1e6)
        rows = np.concatenate([rows, np.full(len(sized), count + len(need))])
        columns = np.concatenate([columns, sized])
        factors = np.concatenate([factors, -(self.bytes[sized] // unit) / scale])
        matrix = scipy.sparse.csr_array(
            (factors, (rows, columns)), shape=(count + len(need) + 1, values + ops)
        )
        low = np.concatenate([np.zeros(count), np.ones(len(need)), [-limit / scale]])
        top = float(self.cost.max(initial=0.0)) or 1.0
        result = scipy.optimize.milp(
            np.concatenate([np.zeros(values), self.cost / top]),
            integrality=np.full(values + ops, int(is_integer)),
            bounds=scipy.optimize.Bounds(
                np.concatenate([self.must, np.zeros(ops)]),
                np.concatenate([self.may | self.must, np.ones(ops)]),
            ),
            constraints=scipy.optimize.LinearConstraint(matrix, low, np.inf),
            options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 1e-4},
        )
        if result.x is None:
            return None
        kept, again = result.x[:values] > 0.5, result.x[values:] > 0.5
        bound = result.mip_dual_bound if is_integer else result.fun
        return Choice(
            self.values[kept],
            self.ops[again],
            int(self.bytes[kept].sum()),
            float(self.cost[again].sum()),
            max(0.0, float(bound or 0.0)) * top,
        )


def boundary_at(graph: Graph, position: int, is_any_order: bool = False) -> Boundary:
    """The problem at the first run of the op at `position`.

    With `is_any_order` only those values and needs that any schedule has then: of the op's
    ancestors, for its descendants. Else those of the program's order. Arguments are free to read.
    """
    before = np.zeros(len(graph.ops), bool)
    after = np.zeros(len(graph.ops), bool)
    before[:position] = True
    after[position:] = True
    if is_any_order:
        before &= _ancestors(graph, position)
        after &= _descendants(graph, position)
    view = np.array([is_view(graph, i) for i in range(len(graph.ops))], bool)
    ops = np.flatnonzero(before & ~view)
    made, made_by = graph.results.gather(ops)
    is_own = graph.root[made] == made
    values, maker_op = made[is_own], ops[made_by[is_own]]
    place = np.full(len(graph.values), -1, np.int64)
    place[values] = np.arange(len(values))

    later, later_op = graph.operands.gather(np.flatnonzero(after & ~view))
    del later_op
    need = np.zeros(len(values), bool)
    need[_present(place, graph.root[later])] = True
    outputs = [v for v, value in enumerate(graph.values) if value.is_output]
    need[_present(place, graph.root[np.array(outputs, np.int64)])] = True
    must = np.zeros(len(values), bool)
    operands = graph.operands.gather(np.array([position]))[0]
    must[_present(place, graph.root[operands])] = True
    # What another loop made is kept of all trips, or made again in this one.
    is_outside = graph.loop[graph.definer[values]] != graph.loop[position]
    must &= ~(is_outside & (graph.loop[graph.definer[values]] >= 0))

    can = np.array([graph.ops[o].is_recomputable for o in ops], bool)
    again = ops[can]
    op_place = np.full(len(graph.ops), -1, np.int64)
    op_place[again] = np.arange(len(again))
    read, reader = graph.operands.gather(again)
    root = place[graph.root[read]]
    pairs = np.unique(np.stack([reader[root >= 0], root[root >= 0]], 1), axis=0)
    return Boundary(
        values,
        again,
        np.where(is_outside, graph.stacked_bytes[values], graph.bytes[values]),
        graph.cost[again],
        must,
        np.ones(len(values), bool),
        need,
        op_place[maker_op],
        pairs[:, 0],
        pairs[:, 1],
    )


def _present(place: Ints, values: Ints) -> Ints:
    found = place[values]
    return found[found >= 0]


def _ancestors(graph: Graph, op: int) -> np.ndarray:
    """The ops without which `op` can't run."""
    found = np.zeros(len(graph.ops), bool)
    front = np.array([op])
    while len(front):
        makers = np.unique(graph.definer[graph.operands.gather(front)[0]])
        front = makers[(makers >= 0) & ~found[makers]]
        found[front] = True
    return found


def _descendants(graph: Graph, op: int) -> np.ndarray:
    """The ops that can't run without `op`, and itself."""
    found = np.zeros(len(graph.ops), bool)
    found[op] = True
    front = np.array([op])
    while len(front):
        read = graph.readers.gather(graph.results.gather(front)[0])[0]
        readers = np.unique(read)
        front = readers[~found[readers]]
        found[front] = True
    return found
