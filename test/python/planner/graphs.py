# SPDX-License-Identifier: Apache-2.0
"""Graphs for the planner's tests, and the oracles: a step-by-step interpreter, all plans."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import strategies as st

from hlo_remat.planner import Graph, Op, Recompute, Value


def training_chain(
    sizes: Sequence[int], costs: Sequence[float], gradient: int = 0, in_place: bool = False
) -> Graph:
    """x0 -> x1 -> ... and a backward op for each forward one, which reads that one's operand."""
    values = [Value(size, f"x{i}") for i, size in enumerate(sizes)]
    ops = []
    for i, cost in enumerate(costs):
        pairs = ((i, i + 1),) if in_place and sizes[i] == sizes[i + 1] else ()
        ops.append(Op(cost, (i,), (i + 1,), f"f{i}", in_place=pairs))
    last: tuple[int, ...] = ()
    for i in reversed(range(len(costs))):
        values.append(Value(gradient, f"g{i}"))
        ops.append(Op(costs[i], (i, *last), (len(values) - 1,), f"b{i}"))
        last = (len(values) - 1,)
    return Graph(tuple(values), tuple(ops))


@st.composite
def programs(draw: st.DrawFn, most_ops: int = 7, plain: bool = False) -> Graph:
    """Any small program: arguments, ops of several results, views, in-place pairs, outputs."""
    values = [
        Value(draw(st.integers(0, 4)), is_donated=draw(st.booleans()))
        for _ in range(draw(st.integers(0, 2)))
    ]
    ops = []
    for _ in range(draw(st.integers(1, most_ops))):
        operands = (
            draw(st.lists(st.sampled_from(range(len(values))), max_size=3, unique=True))
            if (values)
            else []
        )
        kind = draw(st.sampled_from(["plain"] if plain else ["plain"] * 4 + ["view", "in place"]))
        results = [len(values)]
        pairs: tuple[tuple[int, int], ...] = ()
        if kind == "view" and operands:
            values.append(Value(3, alias_of=operands[0]))
        elif kind == "in place" and operands:
            values.append(Value(values[operands[0]].bytes))
            pairs = ((operands[0], results[0]),)
        else:
            count = 1 if plain else draw(st.sampled_from([1, 1, 1, 2]))
            results = list(range(len(values), len(values) + count))
            for _ in results:
                values.append(
                    Value(draw(st.integers(0, 4)), is_output=draw(st.integers(0, 5)) == 0)
                )
        ops.append(
            Op(
                float(draw(st.integers(0, 5))),
                tuple(operands),
                tuple(results),
                is_recomputable=draw(st.integers(0, 5)) > 0,
                workspace=0 if plain else draw(st.sampled_from([0, 0, 2])),
                in_place=pairs,
            )
        )
    return Graph(tuple(values), tuple(ops))


@st.composite
def training_graphs(draw: st.DrawFn, most: int = 5) -> Graph:
    """A forward with skips and a backward in reverse order, as training steps have."""
    count = draw(st.integers(2, most))
    sizes = draw(st.lists(st.integers(0, 4), min_size=2 * count, max_size=2 * count))
    costs = draw(st.lists(st.integers(0, 5), min_size=2 * count, max_size=2 * count))
    values = [Value(size) for size in sizes]
    ops = []
    for i in range(count):
        skip = draw(st.integers(0, i)) if i else 0
        operands = {i - 1, skip - 1} - {-1}
        ops.append(Op(float(costs[i]), tuple(sorted(operands)), (i,)))
    for j in range(count):
        i = count - 1 - j
        operands = {count + j - 1, i, i - 1} if j else {i, i - 1}
        ops.append(Op(float(costs[count + j]), tuple(sorted(operands - {-1})), (count + j,)))
    return Graph(tuple(values), tuple(ops))


def interpret(graph: Graph, recomputes: Sequence[Recompute] = ()) -> list[int]:
    """Bytes live at each run, by allocating and freeing step by step."""
    sequence: list[tuple[int, bool]] = []
    left = list(recomputes)
    for position in range(len(graph.ops)):
        while left and left[0].before == position:
            sequence.append((left.pop(0).op, False))
        sequence.append((position, True))
    # Buffers are lists [bytes, readers left]; an instance is a buffer or a view of one.
    made = [(run, v) for run, (op, _) in enumerate(sequence) for v in graph.ops[op].results]
    arguments = [v for v in range(len(graph.values)) if v not in {v for _, v in made}]
    newest: dict[int, tuple[int, int]] = {v: (-1, v) for v in arguments}
    reads: dict[tuple[int, int], int] = {}
    buffer_of: dict[tuple[int, int], tuple[int, int]] = {v: v for v in newest.values()}
    for run, (op, _) in enumerate(sequence):
        for v in set(graph.ops[op].operands):
            reads[buffer_of[newest[v]]] = run
        bases = {v: graph.values[v].alias_of for v in graph.ops[op].results}
        for v, base in bases.items():
            instance = (run, v)
            buffer_of[instance] = instance if base is None else buffer_of[newest[base]]
        for v in bases:
            newest[v] = (run, v)
            reads.setdefault(buffer_of[run, v], run)
            reads[buffer_of[run, v]] = max(reads[buffer_of[run, v]], run)
    forever = len(sequence)
    for v, value in enumerate(graph.values):
        if value.is_output:
            reads[buffer_of[newest[v]]] = forever
        if v in arguments and not value.is_donated:
            reads[-1, v] = forever
    live = {(-1, v): graph.values[v].bytes for v in arguments}
    memory = []
    for run, (op, _) in enumerate(sequence):
        for v in graph.ops[op].results:
            if graph.values[v].alias_of is None:
                live[run, v] = graph.values[v].bytes
        newest_before = {
            v: max((i for i in buffer_of if i[1] == v and i[0] < run), default=None)
            for v in graph.ops[op].operands
        }
        now = sum(live.values()) + graph.ops[op].workspace
        for operand, result in graph.ops[op].in_place:
            if reads[buffer_of[newest_before[operand]]] == run:
                now -= graph.values[result].bytes
        memory.append(now)
        live = {i: size for i, size in live.items() if reads.get(i, i[0]) > run}
    return memory


def all_plans(graph: Graph, most: int) -> list[list[Recompute]]:
    """Every sequence of at most `most` further runs."""
    single = [
        Recompute(before, op)
        for before in range(len(graph.ops))
        for op in range(before)
        if graph.ops[op].is_recomputable
    ]
    plans = []
    for count in range(most + 1):
        for combination in itertools.product(single, repeat=count):
            if all(a.before <= b.before for a, b in itertools.pairwise(combination)):
                plans.append(list(combination))
    return plans


def residual_chain(blocks: int) -> Graph:
    """Blocks of an expensive and a cheap op around a skip, all of different sizes and costs."""
    values = [Value(0)]
    ops: list[Op] = []

    def op(cost: float, operands: Sequence[int], size: int) -> int:
        values.append(Value(size))
        ops.append(Op(cost, tuple(dict.fromkeys(operands)), (len(values) - 1,)))
        return len(values) - 1

    x, saved = 0, []
    for i in range(blocks):
        a = op(20 + i % 7, [x], 30 + i % 5)
        b = op(1 + i % 3 / 10, [a], 30 + i % 5)
        y = op(1, [b, x], 20 + i % 3)
        saved.append((x, a, b))
        x = y
    d = op(1, [x], 20)
    for i, (x, a, b) in reversed(list(enumerate(saved))):
        d = op(2, [op(40 + i % 7, [op(2, [d, b], 30 + i % 5), a], 30 + i % 5), x, d], 20)
    return Graph(tuple(values), tuple(ops))


def transformer(layers: int, unit: int = 64) -> Graph:
    """A transformer's training step: attention and a perceptron a layer, weights as arguments,
    their gradients as outputs."""
    values: list[Value] = []
    ops: list[Op] = []

    def argument(size: int) -> int:
        values.append(Value(size))
        return len(values) - 1

    def op(
        name: str, cost: int, operands: Sequence[int], size: int, is_output: bool = False
    ) -> int:
        values.append(Value(size, name, is_output=is_output))
        ops.append(Op(float(cost), tuple(dict.fromkeys(operands)), (len(values) - 1,), name))
        return len(values) - 1

    one, four = unit, 4 * unit
    x = argument(one)
    weights, saved = [], []
    for _ in range(layers):
        w = [argument(unit // 4) for _ in range(6)]
        n = op("norm", 1, [x], one)
        q, k, v = (op(name, 8, [n, w[i]], one) for i, name in enumerate("qkv"))
        s = op("scores", 8, [q, k], four)
        p = op("softmax", 4, [s], four)
        a = op("attention", 8, [p, v], one)
        y = op("residual", 1, [x, op("project", 8, [a, w[3]], one)], one)
        m = op("norm2", 1, [y], one)
        u = op("up", 32, [m, w[4]], four)
        g = op("gelu", 4, [u], four)
        z = op("residual2", 1, [y, op("down", 32, [g, w[5]], one)], one)
        weights.append(w)
        saved.append((x, n, q, k, v, p, a, y, m, u, g))
        x = z
    d = op("loss", 1, [x], one)
    for w, (x, n, q, k, v, p, a, y, m, u, g) in zip(weights[::-1], saved[::-1], strict=True):
        dg = op("d down", 32, [d, w[5]], four)
        op("dw5", 32, [d, g], unit // 4, True)
        du = op("d gelu", 4, [dg, u], four)
        op("dw4", 32, [du, m], unit // 4, True)
        dy = op("d norm2", 2, [op("d up", 32, [du, w[4]], one), y, d], one)
        da = op("d project", 8, [dy, w[3]], one)
        op("dw3", 8, [dy, a], unit // 4, True)
        ds = op("d softmax", 4, [op("d p", 8, [da, v], four), p], four)
        dqkv = [op("d v", 8, [da, p], one), op("d q", 8, [ds, k], one), op("d k", 8, [ds, q], one)]
        for t in dqkv:
            op("dw", 8, [t, n], unit // 4, True)
        d = op("d norm", 2, [op("d n", 24, [*dqkv, *w[:3]], one), x, dy], one)
    return Graph(tuple(values), tuple(ops))
