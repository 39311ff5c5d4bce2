# SPDX-License-Identifier: Apache-2.0
"""Erases what nothing reads any more."""

from __future__ import annotations

from collections.abc import Iterable

from jaxlib.mlir import ir

from hlo_remat.ir.index import nested_ops
from hlo_remat.ir.purity import Purity


def erase_dead(values: Iterable[ir.Value], purity: Purity) -> None:
    """Erases the pure ops that make `values`, and what only they read, where nothing reads them.

    Composites stay: a marker that nothing reads still says where a region ends.
    """
    todo = _makers(values)
    erased: set[int] = set()
    while todo:
        key, op = todo.popitem()
        if key in erased or op.name == "stablehlo.composite" or purity.is_impure(op):
            continue
        if any(next(iter(result.uses), None) for result in op.results):
            continue
        read = [*op.operands, *(v for nested in nested_ops(op) for v in nested.operands)]
        todo |= _makers(read)
        erased.add(key)
        erased.update(hash(nested) for nested in nested_ops(op))
        op.erase()


def _makers(values: Iterable[ir.Value]) -> dict[int, ir.Operation]:
    """The ops that make `values`, by a key that stays good when they are gone."""
    makers = (v.owner.operation for v in values if isinstance(v, ir.OpResult))
    return {hash(op): op for op in makers}
