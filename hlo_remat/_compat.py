# SPDX-License-Identifier: Apache-2.0
"""Whatever touches private parts of JAX or jaxlib, or differs between their versions."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, mpmd, sdy, stablehlo


def make_context() -> ir.Context:
    """A new MLIR context with every dialect that JAX lowers to, without importing jax."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in (sdy, mpmd, chlo, stablehlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    context.load_all_available_dialects()
    # Python passes hold the GIL; with threads, IR printing and passes would wait for each other.
    context.enable_multithreading(False)
    return context


stablehlo.register_stablehlo_passes()
