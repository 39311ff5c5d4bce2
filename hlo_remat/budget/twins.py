# SPDX-License-Identifier: Apache-2.0
"""Ops that compute the same as an earlier op of their block, as XLA's CSE finds them (value
numbering; Cocke and Schwartz 1970)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from jaxlib.mlir import ir

from hlo_remat.ir.index import Index
from hlo_remat.ir.purity import Purity

_FENCES = frozenset({"stablehlo.optimization_barrier", "stablehlo.composite", "func.call"})


def merge_twins(function: ir.Operation, purity: Purity) -> None:
    """Lets everything read the first of equal results of one type in a block, and erases the rest.
    What is nested in an op of a block is left alone, and so are fences.

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
            twin = first.setdefault(tuple(numbering.add(op)), op)
            if twin != op:
                for old, new in zip(index.results[op], index.results[twin], strict=True):
                    for use in list(index.uses[old]):
                        index.set_operand(use, new)
                is_gone[op : index.end[op]] = [True] * (index.end[op] - op)
                erased.append(op)
    for op in reversed(erased):
        index.ops[op].erase()


class _Numbering:
    """Numbers values so that equal ones have equal numbers."""

    def __init__(self, index: Index):
        self.index = index
        self.number: dict[int, int] = {}
        self.known: dict[Hashable, int] = {}

    def of(self, value: int) -> int:
        if value not in self.number:
            self.number[value] = self.number_of(("value", value))
        return self.number[value]

    def number_of(self, key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def add(self, op: int) -> list[int]:
        """The numbers of an op's results."""
        results = self.index.results[op]
        key = tuple(self.exactly(op))
        numbers = [self.number_of((key, k)) for k in range(len(results))]
        self.number.update(zip(results, numbers, strict=True))
        return numbers

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
