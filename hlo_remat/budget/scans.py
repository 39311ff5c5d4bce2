# SPDX-License-Identifier: Apache-2.0
"""Writes what a backward loop runs again of its forward."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo_remat.budget.program import Program


def write_scan(
    module: ir.Module,
    symbols: ir.SymbolTable,
    program: Program,
    loop: int,
    ops: list[int],
    targets: list[int],
) -> None:
    raise NotImplementedError
