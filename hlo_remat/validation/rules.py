# SPDX-License-Identifier: Apache-2.0
"""Simpler forms of terms: by what values, bit for bit, are equal to.

Arithmetic of floats is never touched. Integers are those that count and index: scalars that are
constant or affine in the trip of a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.validation.affine import Index, limits
from hlo_remat.validation.streams import direction, is_unsigned
from hlo_remat.validation.terms import Rule, Terms

Children = tuple[int, ...]
Range = tuple[int, int]


def _attribute(terms: Terms, head: int, name: str) -> list[int]:
    op = terms.heads[head].op
    assert op is not None
    exact: Any = op.attributes[name]
    return list(exact)


def _type(terms: Terms, head: int) -> int:
    return terms.heads[head].types[0]


# -- elements in the same order ----------------------------------------------------------------


def _reshape(terms: Terms, head: int, children: Children) -> int:
    (source,) = children
    if terms.kind(source) == "stablehlo.reshape":
        (source,) = terms.children[source]
    type_ = _type(terms, head)
    if terms.type(source) == type_:
        return source
    return terms.intern(terms.head_of("stablehlo.reshape", (), (type_,)), (source,))


def _broadcast(terms: Terms, head: int, children: Children) -> int | None:
    before, after = terms.shape(terms.type(children[0])), terms.shape(_type(terms, head))
    if before is None or after is None or _non_unit(before) != _non_unit(after):
        return None
    dimensions = _attribute(terms, head, "broadcast_dimensions")
    return _reshape(terms, head, children) if dimensions == sorted(dimensions) else None


def _non_unit(shape: list[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _slice(terms: Terms, head: int, children: Children) -> int | None:
    """A slice of one part of a concatenation."""
    (whole,) = children
    if terms.kind(whole) != "stablehlo.concatenate":
        return None
    starts, ends, strides = (
        _attribute(terms, head, name) for name in ("start_indices", "limit_indices", "strides")
    )
    joined = terms.heads[terms.head[whole]].op
    assert joined is not None
    dimension = ir.IntegerAttr(joined.attributes["dimension"]).value
    begin = 0
    for part in terms.children[whole]:
        shape = terms.shape(terms.type(part))
        if shape is None:
            return None
        limit = [*shape]
        limit[dimension] = begin + shape[dimension]
        origin = [0] * len(shape)
        origin[dimension] = begin
        if (starts, ends) == (origin, limit) and set(strides) <= {1}:
            return part
        begin = limit[dimension]
    return None


# -- rows of stacks ----------------------------------------------------------------------------


def _dynamic_slice(terms: Terms, head: int, children: Children) -> int | None:
    """A row of a stack that a loop wrote a row a trip into, or one that was written just before:
    what was written there."""
    stack, *where = children
    if terms.kind(stack) == "stablehlo.dynamic_update_slice":
        _, row, *there = terms.children[stack]
        return row if there == where and terms.type(row) == _type(terms, head) else None
    if terms.kind(stack) != "at":
        return None
    system, count = terms.children[stack][0], terms.index(stack)
    position = terms.data(stack)[0]
    write = terms.children[system][2 * position + 1]
    if count is None or count.scale or terms.kind(write) != "stablehlo.dynamic_update_slice":
        return None
    base, row, *there = terms.children[write]
    binder, trips = terms.data(system)
    shape = terms.shape(terms.type(stack))
    if base != terms.previous(binder, position, terms.type(stack)) or count.offset != trips:
        return None
    if shape is None or terms.shape(_type(terms, head)) != [1, *shape[1:]]:
        return None
    if terms.type(row) != _type(terms, head):
        return None
    if any(terms.constant(v) != 0 for v in (*where[1:], *there[1:])):
        return None
    read, written = _integer(terms, where[0]), _integer(terms, there[0])
    if read is None or written is None or written.variable != terms.bound_variable(binder):
        return None
    trip = _inverse(written, read)
    rows = written.offset, written.scale * (trips - 1) + written.offset
    found = terms.range(trip) if trip else None
    if trip is None or found is None or found[0] < 0 or found[1] >= trips:
        return None
    if min(rows) < 0 or max(rows) >= shape[0]:
        return None
    return terms.row(system, row, trip)


def _inverse(function: Index, value: Index) -> Index | None:
    """The variable at which one index is what another one is."""
    offset = value.offset - function.offset
    if value.scale % function.scale or offset % function.scale:
        return None
    return Index(value.scale // function.scale, offset // function.scale, value.variable)


# -- integers ----------------------------------------------------------------------------------


def _element(terms: Terms, type_: int) -> ir.IntegerType | None:
    """The element type of integer scalars."""
    exact = terms.types.get(type_)
    if not isinstance(exact, ir.RankedTensorType) or exact.rank:
        return None
    return exact.element_type if isinstance(exact.element_type, ir.IntegerType) else None


def _fitting(terms: Terms, type_: int, index: Index) -> int | None:
    element, found = _element(terms, type_), terms.range(index)
    if element is None or found is None:
        return None
    low, high = limits(element)
    return terms.integer(type_, index) if low <= found[0] and found[1] <= high else None


def _constant(terms: Terms, head: int, children: Children) -> int | None:
    type_ = _type(terms, head)
    if _element(terms, type_) is None:
        return None
    op = terms.heads[head].op
    assert op is not None
    try:
        exact: Any = ir.DenseElementsAttr(op.attributes["value"])
    except ValueError:  # a resource
        return None
    return terms.integer(type_, Index(0, int(exact.get_splat_value().value)))


def _affine(combine: Callable[[Index, Index], Index | None]) -> Rule:
    def rule(terms: Terms, head: int, children: Children) -> int | None:
        first, second = (_integer(terms, child) for child in children)
        if first is None or second is None:
            return None
        found = combine(first, second)
        return None if found is None else _fitting(terms, _type(terms, head), found)

    return rule


def _sum(a: Index, b: Index) -> Index | None:
    if a.scale and b.scale and a.variable != b.variable:
        return None
    scale = a.scale + b.scale
    variable = a.variable if a.scale else b.variable
    return Index(scale, a.offset + b.offset, variable if scale else -1)


def _difference(a: Index, b: Index) -> Index | None:
    return _sum(a, b._replace(scale=-b.scale, offset=-b.offset))


def _product(a: Index, b: Index) -> Index | None:
    if a.scale and b.scale:
        return None
    constant, other = (a, b) if b.scale else (b, a)
    by = constant.offset
    return Index(by * other.scale, by * other.offset, other.variable if by * other.scale else -1)


def _convert(terms: Terms, head: int, children: Children) -> int | None:
    (source,) = children
    if terms.type(source) == _type(terms, head):
        return source
    index = _integer(terms, source)
    return None if index is None else _fitting(terms, _type(terms, head), index)


def _integer(terms: Terms, term: int) -> Index | None:
    return terms.index(term) if terms.kind(term) == "integer" else None


def _range(terms: Terms, term: int) -> Range | None:
    """The least and the greatest value of an integer scalar, where something is known of it."""
    index = _integer(terms, term)
    if index is not None:
        return terms.range(index)
    if terms.kind(term) == "stablehlo.and":
        masks = [c for c in map(terms.constant, terms.children[term]) if c is not None and c >= 0]
        return (0, min(masks)) if masks else None
    return None


def _compare(terms: Terms, head: int, children: Children) -> int | None:
    a, b = (_range(terms, child) for child in children)
    op = terms.heads[head].op
    if a is None or b is None or op is None or (is_unsigned(op) and min(a[0], b[0]) < 0):
        return None
    which = direction(op)
    if which in ("GT", "GE"):
        a, b, which = b, a, {"GT": "LT", "GE": "LE"}[which]
    if which == "LT":
        known = True if a[1] < b[0] else False if a[0] >= b[1] else None
    elif which == "LE":
        known = True if a[1] <= b[0] else False if a[0] > b[1] else None
    else:
        return None
    return None if known is None else terms.integer(_type(terms, head), Index(0, int(known)))


def _minimum(terms: Terms, head: int, children: Children) -> int | None:
    return _extreme(terms, children, lambda a, b: a[1] <= b[0])


def _maximum(terms: Terms, head: int, children: Children) -> int | None:
    return _extreme(terms, children, lambda a, b: a[0] >= b[1])


def _extreme(terms: Terms, children: Children, wins: Callable[[Range, Range], bool]) -> int | None:
    a, b = children
    first, second = _range(terms, a), _range(terms, b)
    if first is None or second is None:
        return None
    return a if wins(first, second) else b if wins(second, first) else None


def _clamp(terms: Terms, head: int, children: Children) -> int | None:
    low, value, high = (_range(terms, child) for child in children)
    if low is None or value is None or high is None:
        return None
    return children[1] if low[1] <= value[0] and value[1] <= high[0] else None


def _select(terms: Terms, head: int, children: Children) -> int | None:
    predicate, on_true, on_false = children
    known = terms.constant(predicate)
    return None if known is None else on_true if known else on_false


# -- branches, and what crosses manual computations --------------------------------------------


def _case(terms: Terms, head: int, children: Children) -> int | None:
    predicate, *branches = children
    known = terms.constant(predicate)
    count = len(branches)
    if known is not None:
        return branches[known if 0 <= known < count else count - 1]
    inside = [terms.specialised(v, predicate, b, count) for b, v in enumerate(branches)]
    if len(set(inside)) == 1:
        return inside[0]
    return terms.intern(head, (predicate, *inside))


def _local(terms: Terms, head: int, children: Children) -> int | None:
    """What a device sees of a value that it gave."""
    (whole,) = children
    if terms.kind(whole) != "global" or terms.data(whole) != terms.heads[head].data:
        return None
    (inner,) = terms.children[whole]
    return inner if terms.type(inner) == _type(terms, head) else None


RULES: dict[str, Rule] = {
    "case": _case,
    "local": _local,
    "stablehlo.add": _affine(_sum),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.maximum": _maximum,
    "stablehlo.minimum": _minimum,
    "stablehlo.multiply": _affine(_product),
    "stablehlo.reshape": _reshape,
    "stablehlo.select": _select,
    "stablehlo.slice": _slice,
    "stablehlo.subtract": _affine(_difference),
}
