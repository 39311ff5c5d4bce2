# SPDX-License-Identifier: Apache-2.0
"""What must be true of every program: it is rewritten, proven, valid, and computes the same."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir

import hlo_remat
from hlo_remat import module_io
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.pipeline import pipeline_of
from hlo_remat.testing.programs import Program
from hlo_remat.validation.verify import verify_operations

# Relative to the largest element of an array. XLA rounds the steps between fusions, and a fence
# moves those, so that what is rounded to few bits differs by more than the last one.
_TOLERANCES = {"bfloat16": 0.1, "float16": 0.03, "float32": 2e-3, "float64": 1e-8}
_QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
_ONCE_IS_ENOUGH = ("hlo-remat-inline", "hlo-remat-strip", "hlo-remat-dead-carry")


class Broken(AssertionError):
    """A property that a program doesn't have."""


def check(program: Program) -> None:
    """Raises Broken, or what JAX and hlo_remat raise where they shouldn't."""
    arguments = program.arguments()
    lowered = jax.jit(program.function(hlo_remat.checkpoint)).lower(*arguments)
    code = _bytecode(lowered)
    check_passes(module_io.parse(code))
    rewritten = hlo_remat.apply(lowered)
    again = hlo_remat.apply(code, target="cpu")
    if again != _bytecode(rewritten):
        raise Broken("two runs give two modules")
    plain = jax.jit(program.function(None)).lower(*arguments)
    actual, expected = (x.compile(_QUICK)(*arguments) for x in (rewritten, plain))
    check_close(actual, expected, program)


def _bytecode(lowered: Any) -> bytes:
    return module_io.bytecode(lowered.compiler_ir("stablehlo"))


def check_passes(module: ir.Module) -> None:
    """Each pass leaves a valid module that is proven to be what it was, and prints as it parses."""
    for element in default_pipeline().elements:
        before = module.operation.clone()
        pipeline_of(element).run(module)
        if not module.operation.verify():
            raise Broken(f"{element} leaves an invalid module")
        proof = verify_operations(before, module.operation)
        if not proof:
            raise Broken(f"{element}: {proof}")
        text = str(module)
        if str(ir.Module.parse(text, module.context)) != text:
            raise Broken(f"{element}: the text prints otherwise when it is parsed again")
    for name in _ONCE_IS_ENOUGH:
        text = str(module)
        pipeline_of(name).run(module)
        if str(module) != text:
            raise Broken(f"{name} changes what the pipeline made")


def check_close(actual: Any, expected: Any, program: Program) -> None:
    few_bits = [t for t in ("bfloat16", "float16") if t in repr(program)]
    tolerance = max(_TOLERANCES[t] for t in (*few_bits, "float32"))
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, b = (np.asarray(v).astype(np.float64) for v in (a, b))
        if a.shape != b.shape:
            raise Broken(f"shape {a.shape} instead of {b.shape}")
        if not a.size:
            continue
        if not (np.isfinite(a) == np.isfinite(b)).all():
            raise Broken("other elements are finite")
        finite = np.isfinite(b)
        largest = np.max(np.abs(b[finite]), initial=1e-3)
        error = np.max(np.abs(a - b)[finite], initial=0.0)
        if error > tolerance * largest:
            raise Broken(f"differs by {error:.3g}, of {largest:.3g}")
