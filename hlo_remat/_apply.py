# SPDX-License-Identifier: Apache-2.0
"""`apply`: from a lowered program to one that recomputes."""

from __future__ import annotations

import itertools
import logging
import sys
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from jaxlib.mlir import ir

from hlo_remat import _compat, module_io
from hlo_remat.diagnostics import Diagnostics, Severity
from hlo_remat.errors import VerificationError
from hlo_remat.ir.fence import fence_options
from hlo_remat.passes.base import Pass
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute, Scope, Strategy
from hlo_remat.passes.pipeline import Pipeline, parse_pipeline
from hlo_remat.validation.verify import verify_operations

if TYPE_CHECKING:
    from hlo_remat.budget.plan import Plan

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
    memory_budget: int | str | None = None,
    policy: str | None = None,
    plan: Plan | None = None,
    compile_check: bool = True,
) -> T:
    """Rewrites a lowered program so that its checkpointed regions recompute, and so that it fits a
    memory budget where one is given.

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
      memory_budget: memory that the program may take, in bytes of one device as XLA's
        `memory_analysis()` counts them (arguments + outputs + temp - aliased): a number, "8GiB",
        "80%" of the device's memory, or "min" for the least. See `hlo_remat.plan`, which says what
        was found; nothing else can be chosen with a budget but `target` and `verify`.
      policy: "auto", instead of a budget: recompute what costs no time.
      plan: what `hlo_remat.plan(x)` or `frontier(x)` found, instead of a budget.
      compile_check: compile the plan to see that it fits; see `hlo_remat.plan`.

    Returns:
      The rewritten program, of the same kind as `x`. A Lowered compiles with the options that
      the target needs for barriers to hold; options given to its `compile` are kept and win.

    Raises:
      BudgetError: where no plan fits the budget, or none is found.
      DiagnosticError: where the module can't be read or rewritten.
      PipelineError: where `pipeline` can't be read.
      PlanError: where `plan` was made of another module.
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
    if (memory_budget, policy, plan) != (None, None, None):
        if (pipeline, strategy, scope) != (None, "auto", "auto"):
            raise ValueError("a pipeline, a strategy or a scope can't be chosen with a plan")
        if plan is not None and (memory_budget, policy) != (None, None):
            raise ValueError("give a plan, or what to make one of: memory_budget or policy")
        from hlo_remat.budget import entry  # here, for the planner imports scipy

        found = plan or entry.plan(
            x,
            memory_budget=memory_budget,
            policy=policy,
            target=target,
            compile_check=compile_check,
            verify=verify,
        )
        if remarks:
            print(found, file=sys.stderr)
        return _apply_plan(x, found)
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

    return with_module(lowered, module, fence_options(module, target))


def _apply_plan(x: Any, plan: Plan) -> Any:
    from hlo_remat.budget.entry import planned

    bytecode, compiled = planned(x, plan)
    if not _compat.is_lowered(x):
        _, restore = module_io.read(x)
        context = x.context if isinstance(x, ir.Module) else _compat.make_context()
        return restore(ir.Module.parse(bytecode, context))
    from hlo_remat.frontend.lowered import with_module

    return compiled or with_module(x, module_io.parse(bytecode), plan.compiler_options)


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
