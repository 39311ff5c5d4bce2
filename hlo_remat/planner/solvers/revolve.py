# SPDX-License-Identifier: Apache-2.0
"""Revolve (Griewank, Walther, ACM TOMS 2000): the optimum for chains of equal steps.

A chain of `n` equal steps whose backward reads the states in reverse order, with memory for `s`
states and the one that is being advanced, needs at least

    r * n - binomial(s + r, s + 1)      where binomial(s + r - 1, s) < n <= binomial(s + r, s)

steps forward, and the schedule that splits by binomials needs just that. The dynamic program of
chain_dp.py covers these chains too; here they take no time, and the count is a proof of optimality.
Oracle in the tests: PyPI's checkpoint_schedules.
"""

from __future__ import annotations

import dataclasses
import functools
from math import comb

from hlo_remat.planner.graph import Graph
from hlo_remat.planner.simulate import Recompute
from hlo_remat.planner.stages import without_dead


@functools.cache
def steps(n: int, s: int) -> int:
    """The fewest steps forward for `n` states to be read in reverse, with `s` slots: 0 for one
    state, which is there."""
    if n <= 1:
        return 0
    if s < 1:
        raise ValueError("a chain of more than one step needs a slot")
    r = 0
    while comb(s + r, s) < n:
        r += 1
    return r * n - comb(s + r, s + 1)


@dataclasses.dataclass(frozen=True)
class Chain:
    """A uniform chain in a graph: `forward[i]` makes state `i + 1` from state `i`, in place where
    that isn't kept; `backward[i]` is the position of the op that reads state `i`. A state has
    `size` bytes, a step costs `cost`; nothing else has bytes."""

    forward: list[int]
    backward: list[int]
    size: int
    cost: float


def find_chain(graph: Graph) -> Chain | None:
    """The graph as a uniform chain, None unless it is one all through: forward ops that only pass
    on a state, then for each state, the last first, an op that reads it. State 0 is an argument."""
    count = len(graph.ops) // 2
    if count < 2 or len(graph.ops) != 2 * count or graph.loops:
        return None
    first = [v for v in graph.ops[0].operands if graph.values[v].bytes]
    if len(first) != 1 or graph.definer[first[0]] >= 0:
        return None
    states = first
    for i, op in enumerate(graph.ops[:count]):
        sized = [v for v in op.operands if graph.values[v].bytes]
        if sized != [states[-1]] or len(op.results) != 1 or op.workspace:
            return None
        result = graph.values[op.results[0]]
        is_last = i == count - 1
        if not op.is_recomputable or result.alias_of is not None or not result.is_savable:
            return None
        if is_last:
            if result.bytes or result.is_output:
                return None
        elif (states[-1], op.results[0]) not in op.in_place or result.is_output:
            return None
        states = [*states, op.results[0]]
    states.pop()
    sizes = {graph.values[v].bytes for v in states}
    costs = {op.cost for op in graph.ops[: count - 1]}
    size = graph.values[states[0]].bytes
    if len(sizes) != 1 or len(costs) != 1 or not size:
        return None
    for op, state in zip(graph.ops[count:], reversed(states), strict=True):
        sized = [v for v in op.operands if graph.values[v].bytes]
        if sized != [state] or op.workspace or any(graph.values[v].bytes for v in op.results):
            return None
    return Chain(list(range(count)), list(range(2 * count - 1, count - 1, -1)), size, costs.pop())


def search(graph: Graph, budget: int) -> tuple[list[Recompute], float] | None:
    """The optimal plan and its cost, None where the graph is no uniform chain or nothing fits."""
    chain = find_chain(graph)
    if chain is None:
        return None
    # The argument stays, so it has a slot of its own for good.
    slots = budget // chain.size - 1
    if slots < 1:
        return None
    n = len(chain.backward)
    found: list[Recompute] = []
    # (first state, states from it on, slots besides its own)
    todo = [(0, n, min(slots, n) - 1)]
    done = False
    while todo:
        start, length, free = todo.pop()
        if length == 1:
            continue
        middle = _split(length, free)
        target = start + middle
        # The state that is read next is the last of this stretch.
        if done:
            before = chain.backward[start + length - 1]
            found += [Recompute(before, chain.forward[i]) for i in range(start, target)]
        todo.append((start, middle, free))
        todo.append((target, length - middle, free - 1))
        done = done or length - middle == 1
    cost = (steps(n, slots) - (n - 1)) * chain.cost
    return without_dead(graph, sorted(found, key=lambda r: r.before)), cost


def _split(length: int, free: int) -> int:
    """How many steps to advance before the next state is kept, or read if it is the last."""
    if free < 1:
        return length - 1
    return min(range(1, length), key=lambda m: m + steps(m, free + 1) + steps(length - m, free))
