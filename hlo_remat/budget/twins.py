# SPDX-License-Identifier: Apache-2.0
"""Ops that compute the same as an earlier op of their block, as XLA's CSE finds them after it has
simplified shapes (value numbering; Cocke and Schwartz 1970)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.budget.clusters import is_elementwise
from hlo_remat.ir.index import Index
from hlo_remat.ir.purity import Purity

_FENCES = frozenset({"stablehlo.optimization_barrier", "stablehlo.composite", "func.call"})


def merge_twins(function: ir.Operation, purity: Purity) -> None:
    """Lets everything read the first of equal results of one type in a block, and erases the rest.
    What is nested in an op of a block is left alone, and so are fences, and shapings back to what
    was shaped, for by its shaping one sees what a stack holds.

    Rewrite: f(x), g(f(x)) -> f(x), g(that)
    """
    index = Index(function)
    impure = purity.impure_ops(index)
    numbering = _Numbering(index)
    erased: list[int] = []
    is_gone = [False] * len(index.ops)
    for block, members in enumerate(index.blocks):
        owner = index.block_owner[block]
        if owner >= 0 and is_gone[owner]:
            continue
        first: dict[Hashable, int] = {}
        for op in members[:-1]:
            if impure[op] or index.names[op] in _FENCES or not index.results[op]:
                continue
            types = (hash(index.values[v].type) for v in index.results[op])
            twin = first.setdefault((tuple(numbering.add(op)), *types), op)
            if twin != op and index.names[twin] == index.names[op]:
                for old, new in zip(index.results[op], index.results[twin], strict=True):
                    for use in list(index.uses[old]):
                        index.set_operand(use, new)
                is_gone[op : index.end[op]] = [True] * (index.end[op] - op)
                erased.append(op)
    for op in reversed(erased):
        index.ops[op].erase()


class _Numbering:
    """Numbers values so that equal ones have equal numbers. Dimensions of size 1 don't count."""

    def __init__(self, index: Index):
        self.index = index
        self.number: dict[int, int] = {}
        self.known: dict[Hashable, int] = {}
        # For the number of a broadcast what it is of, and for each dimension that one's, or -1.
        self.spread: dict[int, tuple[int, tuple[int, ...]]] = {}

    def of(self, value: int) -> int:
        if value not in self.number:
            self.number[value] = self.number_of(("value", value))
        return self.number[value]

    def number_of(self, key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def add(self, op: int) -> list[int]:
        """The numbers of an op's results."""
        results = self.index.results[op]
        number = self.broadcast(op)
        if number is None:
            key = self.elementwise(op) or tuple(self.exactly(op))
            numbers = [self.number_of((key, k)) for k in range(len(results))]
        else:
            numbers = [number]
        self.number.update(zip(results, numbers, strict=True))
        return numbers

    def sizes(self, value: int) -> list[int] | None:
        type_ = self.index.values[value].type
        is_static = isinstance(type_, ir.RankedTensorType) and type_.has_static_shape
        return list(ir.RankedTensorType(type_).shape) if is_static else None

    def elementwise(self, op: int) -> Hashable | None:
        if not is_elementwise(self.index, op):
            return None
        values = [*self.index.results[op], *self.index.operands[op]]
        shapes = {tuple(n for n in self.sizes(v) or (0,) if n != 1) for v in values}
        if len(shapes) != 1:
            return None
        read = tuple(self.of(v) for v in values[1:])
        element = hash(ir.RankedTensorType(self.index.values[values[0]].type).element_type)
        return self.index.names[op], read, shapes.pop(), element, *_attributes(self.index.ops[op])

    def broadcast(self, op: int) -> int | None:
        """The number of what repeats its operand, or only adds or drops dimensions: what counts is
        along which of the operand's dimensions each of the result's runs."""
        name = self.index.names[op]
        if name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return None
        source = self.index.operands[op][0]
        old, new = self.sizes(source), self.sizes(self.index.results[op][0])
        if old is None or new is None:
            return None
        if name == "stablehlo.reshape":
            places = [d for d, n in enumerate(new) if n != 1]
            if [n for n in old if n != 1] != [n for n in new if n != 1]:
                return None
        else:
            dimensions: Any = self.index.ops[op].attributes["broadcast_dimensions"]
            places = [d for n, d in zip(old, dimensions, strict=True) if n != 1]
        of_place = {d: k for k, d in enumerate(places)}
        along = tuple(of_place.get(d, -1) for d, n in enumerate(new) if n != 1)
        base = self.of(source)
        if base in self.spread:
            base, inner = self.spread[base]
            along = tuple(-1 if k < 0 else inner[k] for k in along)
        if along == tuple(range(len(places))) and base == self.of(source):
            return base
        number = self.number_of(("spread", base, along, tuple(n for n in new if n != 1)))
        self.spread[number] = base, along
        return number

    def exactly(self, op: int) -> Iterator[Hashable]:
        index = self.index
        inside: dict[int, Hashable] = {}
        for i in range(op, index.end[op]):
            if i != op:
                for v in index.block_arguments[index.block[i]]:
                    inside.setdefault(v, ("inside", len(inside)))
            yield index.names[i]
            for v in index.operands[i]:
                yield inside.get(v) or (self.of(v), hash(index.values[v].type))
            for v in index.results[i]:
                yield hash(index.values[v].type)
                inside[v] = ("inside", len(inside))
            yield from sorted(_attributes(index.ops[i]))


def _attributes(op: ir.Operation) -> Iterator[tuple[str, int]]:
    """Names and hashes of attributes, which MLIR makes unique."""
    for attribute in op.attributes:
        name = getattr(attribute, "name", attribute)
        yield name, hash(op.attributes[name])
