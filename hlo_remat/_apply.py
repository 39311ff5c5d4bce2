# SPDX-License-Identifier: Apache-2.0
"""`apply`: from a lowered program to one that recomputes."""

from __future__ import annotations

import itertools
import logging
import sys
from typing import Any, TypeVar, get_args

from jaxlib import version
from jaxlib.mlir import ir

from hlo_remat import _compat, module_io
from hlo_remat.diagnostics import Diagnostics, Severity
from hlo_remat.errors import VerificationError
from hlo_remat.ir.fence import barriers
from hlo_remat.passes.base import Pass
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute, Scope, Strategy
from hlo_remat.passes.pipeline import Pipeline, parse_pipeline
from hlo_remat.strategy import compiler_options, parse_version
from hlo_remat.validation.verify import verify_operations

_logger = logging.getLogger("hlo_remat")
T = TypeVar("T")


def apply(
    x: T,
    *,
    pipeline: str | Pipeline | None = None,
    target: str | None = None,
    strategy: str = "auto",
    scope: str = "auto",
    remarks: bool = False,
    verify: bool = True,
) -> T:
    """Rewrites a lowered program so that its checkpointed regions recompute.

    Args:
      x: what `jax.jit(f).lower(...)` returns, an MLIR module, StableHLO text, or bytes (MLIR
        bytecode or a StableHLO portable artifact). It is not changed, and neither is the user's own
        `jax.jit(f)`.
      pipeline: passes to run instead of the default ones, as for `hlo-remat-opt`. The other options
        belong to the default pipeline and can't be given with it.
      target: platform that the program is compiled for ("cpu", "gpu", ...); by default the one
        that `x` was lowered for, or "cpu" where `x` doesn't say.
      strategy: the fence around each recompute: "auto", "optimization-barrier", "call", "case",
        "while" or "none".
      scope: what a "call", "case" or "while" holds: the "operands" of the recompute alone, as a
        barrier does ("auto"), the "recompute", or its region's "backward" too.
      remarks: print the passes' remarks on stderr; they go to the logger "hlo_remat" in any case.
      verify: prove that the rewritten program computes the same, as `hlo_remat.verify` does. Of a
        pipeline with native passes, what our own passes do is proven.

    Returns:
      The rewritten program, of the same kind as `x`. A Lowered compiles with the options that
      the target needs for barriers to hold; options given to its `compile` are kept and win.

    Raises:
      DiagnosticError: where the module can't be read or rewritten.
      PipelineError: where `pipeline` can't be read.
      TypeError: where `x` is none of these kinds.
      ValueError: for an unknown strategy or scope, or options beside a pipeline.
      VerificationError: where the proof fails: a fault of ours.
    """
    _check_choice("strategy", strategy, get_args(Strategy))
    _check_choice("scope", scope, get_args(Scope))
    if pipeline is not None and (target, strategy, scope) != (None, "auto", "auto"):
        raise ValueError(
            "target, strategy and scope belong to the default pipeline; write them "
            "into the pipeline as options of hlo-remat-lower-recompute"
        )
    if _compat.is_lowered(x):
        return _apply_lowered(x, pipeline, target, strategy, scope, remarks, verify)
    module, restore = module_io.read(x)
    chosen = _pipeline(pipeline, _normalised(target or "cpu"), strategy, scope)
    _run(chosen, module, remarks, verify)
    return restore(module)


def _apply_lowered(
    lowered: Any,
    pipeline: str | Pipeline | None,
    target: str | None,
    strategy: str,
    scope: str,
    remarks: bool,
    verify: bool,
) -> Any:
    platforms = _compat.lowered_platforms(lowered)
    target = _normalised(target or (platforms[0] if len(platforms) == 1 else "other"))
    # In a context of our own: JAX caches and shares the module, and its context.
    module = module_io.parse(module_io.bytecode(lowered.compiler_ir("stablehlo")))
    _run(_pipeline(pipeline, target, strategy, scope), module, remarks, verify)
    from hlo_remat.frontend.lowered import with_module  # here, for it imports jax

    has_any, in_loop = barriers(module)
    options = (
        compiler_options(target, parse_version(version.__version__), in_loop) if has_any else {}
    )
    return with_module(lowered, module, options)


def _pipeline(pipeline: str | Pipeline | None, target: str, strategy: Any, scope: Any) -> Pipeline:
    if isinstance(pipeline, str):
        return parse_pipeline(pipeline)
    return pipeline or default_pipeline(
        lower=LowerRecompute(strategy=strategy, scope=scope, target=target)
    )


def _run(pipeline: Pipeline, module: ir.Module, remarks: bool, verify: bool) -> None:
    diagnostics = Diagnostics()
    for is_provable, elements in itertools.groupby(pipeline.elements, _is_provable):
        before = module.operation.clone() if verify and is_provable else None
        Pipeline(tuple(elements)).run(module, diagnostics=diagnostics, verify_each=False)
        module_io.verify(module, diagnostics)
        if before is not None:
            verification = verify_operations(before, module.operation)
            if not verification:
                raise VerificationError(verification)
    for d in diagnostics.all:
        if d.severity is not Severity.ERROR:
            _logger.log(
                logging.WARNING if d.severity is Severity.WARNING else logging.INFO, "%s", d
            )
            if remarks:
                print(d, file=sys.stderr)


def _is_provable(element: Pass | str) -> bool:
    return not isinstance(element, str) or element == "symbol-dce"


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")


def _normalised(target: str) -> str:
    return "gpu" if target in ("cuda", "rocm") else target
