# SPDX-License-Identifier: Apache-2.0
"""What loops make: each carry a stream of its own, solved after those that it depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.validation.affine import Index, limits
from hlo_remat.validation.substitution import Substitution
from hlo_remat.validation.terms import Terms


def after_loop(
    terms: Terms,
    bit: int,
    symbols: Sequence[int],
    starts: Sequence[int],
    steps: Sequence[int],
    condition: int,
) -> list[int]:
    """What a loop returns: by what its carries, the symbols, start with, the terms of the next
    trip, and the condition. `bit` is that of its variable."""
    trips = _trips(terms, symbols, starts, steps, condition)
    if trips == 0:
        return list(starts)
    if trips == 1:
        once = Substitution(terms, dict(zip(symbols, starts, strict=True)))
        return [once(step) for step in steps]
    variable = terms.variable(bit, trips)
    found = streams(terms, variable, trips, symbols, starts, steps)
    if trips is not None:
        end = Substitution(terms, {}, {variable: Index(0, trips)})
        return [end(stream) for stream in found]
    holds = Substitution(terms, dict(zip(symbols, found, strict=True)))(condition)
    return [terms.last(variable, stream, holds) for stream in found]


def streams(
    terms: Terms,
    variable: int,
    trips: int | None,
    symbols: Sequence[int],
    starts: Sequence[int],
    steps: Sequence[int],
) -> list[int]:
    """The carries of a loop as terms over its variable."""
    solved = Substitution(terms, {})
    for component in _components(terms, symbols, steps):
        own = Substitution(terms, {symbols[k]: symbols[k] for k in component}, parent=solved)
        equations = {symbols[k]: (starts[k], own(steps[k])) for k in component}
        found = _simple(terms, variable, trips, equations)
        if found is None:
            found = terms.system(variable, trips, equations)
        for symbol, stream in found.items():
            solved.add(symbol, stream)
    return [solved(symbol) for symbol in symbols]


def _simple(
    terms: Terms, variable: int, trips: int | None, equations: dict[int, tuple[int, int]]
) -> dict[int, int] | None:
    """A carry that never changes, or that counts."""
    if len(equations) > 1:
        return None
    ((symbol, (start, step)),) = equations.items()
    if step == symbol:
        return {symbol: start}
    counter = _counter(terms, symbol, start, step)
    if counter is None or not trips:
        return None
    first, by = counter
    low, high = limits(_element(terms, symbol))
    if not low <= first + by * (trips - 1) <= high:
        return None
    index = Index(by, first, variable) if by else Index(0, first)
    return {symbol: terms.integer(terms.type(symbol), index)}


def _counter(terms: Terms, symbol: int, start: int, step: int) -> tuple[int, int] | None:
    """Where a carry starts and by how much it grows, where both are constant."""
    first = terms.constant(start)
    if first is None or terms.kind(step) != "stablehlo.add":
        return None
    operands = terms.children[step]
    others = [v for v in operands if v != symbol]
    by = terms.constant(others[0]) if len(others) == 1 else None
    return None if by is None else (first, by)


def _element(terms: Terms, term: int) -> Any:
    return ir.RankedTensorType(terms.types[terms.type(term)]).element_type


def _trips(
    terms: Terms,
    symbols: Sequence[int],
    starts: Sequence[int],
    steps: Sequence[int],
    condition: int,
) -> int | None:
    """How often a loop runs that counts from a constant up to a constant."""
    if terms.kind(condition) != "stablehlo.compare":
        return None
    compare = terms.heads[terms.head[condition]].op
    assert compare is not None
    counter, limit = terms.children[condition]
    bound = terms.constant(limit)
    if bound is None or counter not in symbols or direction(compare) != "LT":
        return None
    k = symbols.index(counter)
    found = _counter(terms, counter, starts[k], steps[k])
    if found is None or found[1] <= 0:
        return None
    first, by = found
    if is_unsigned(compare) and min(first, bound) < 0:
        return None
    trips = max(0, -(-(bound - first) // by))
    return trips if first + by * trips <= limits(_element(terms, counter))[1] else None


def direction(compare: ir.Operation) -> str:
    """LT, EQ, ... of a comparison."""
    return str(compare.attributes["comparison_direction"]).rstrip(">").split()[-1]


def is_unsigned(compare: ir.Operation) -> bool:
    attributes = compare.attributes
    return "compare_type" in attributes and "UNSIGNED" in str(attributes["compare_type"])


def _components(terms: Terms, symbols: Sequence[int], steps: Sequence[int]) -> Iterator[list[int]]:
    """The strongly connected components of the carries, those that others depend on first
    (Tarjan, SIAM J. Comput. 1972)."""
    number_of = {terms.mask[s]: k for k, s in enumerate(symbols)}
    all_symbols = sum(number_of)

    def needs(k: int) -> Iterator[int]:
        mask = terms.mask[steps[k]] & all_symbols
        while mask:
            bit = mask & -mask
            yield number_of[bit]
            mask ^= bit

    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in range(len(symbols)):
        if root in order:
            continue
        todo = [(root, needs(root))]
        while todo:
            k, rest = todo[-1]
            if k not in order:
                order[k] = low[k] = len(order)
                path.append(k)
                on_path.add(k)
            for j in rest:
                if j not in order:
                    todo.append((j, needs(j)))
                    break
                if j in on_path:
                    low[k] = min(low[k], order[j])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[k])
                if low[k] == order[k]:
                    start = path.index(k)
                    component, path[start:] = path[start:], []
                    on_path.difference_update(component)
                    yield component
