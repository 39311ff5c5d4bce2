# SPDX-License-Identifier: Apache-2.0
"""Copies ops of a function elsewhere, with their attributes and locations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxlib.mlir import ir

from hlo_remat.ir.index import Index, nested_ops


def clone_ops(
    index: Index,
    ops: Iterable[int],
    mapping: dict[int, ir.Value],
    resolve: Callable[[int], int] = lambda value: value,
    relocate: Callable[[ir.Location], ir.Location] | None = None,
) -> None:
    """Clones `ops`, given in program order, to the insertion point.

    An operand is looked up in `mapping`, by itself or as what `resolve` says it stands for; one
    that isn't there is captured. The clones' results are added to `mapping` where it has none.
    """

    def copied(value: int) -> ir.Value | None:
        return mapping[value] if value in mapping else mapping.get(resolve(value))

    for i in ops:
        clone = index.ops[i].clone()
        clones = [clone.operation]
        if index.end[i] > i + 1:
            clones += nested_ops(clone.operation)
        for j, op in enumerate(clones, start=i):
            for k, value in enumerate(index.operands[j]):
                new = copied(value)
                if new is not None:
                    op.operands[k] = new
        if relocate is not None:
            for op in clones:
                op.location = relocate(op.location)
        for v, result in zip(index.results[i], clone.operation.results, strict=True):
            mapping.setdefault(v, result)
