# SPDX-License-Identifier: Apache-2.0
"""`plan` and `frontier`: plans for whatever users have."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from jaxlib.mlir import ir

from hlo_remat import _compat, module_io
from hlo_remat.budget.plan import Plan
from hlo_remat.budget.search import Search, Setting, fingerprint
from hlo_remat.cost.targets import target_named
from hlo_remat.cost.xla import Compiled, Memory
from hlo_remat.errors import PlanError
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.planner.plan import parse_bytes

_logger = logging.getLogger("hlo_remat")
Budget = int | str | None


def plan(
    x: Any,
    *,
    memory_budget: int | str | None = None,
    policy: str | None = None,
    target: str | None = None,
    compile_check: bool = True,
    verify: bool = True,
    time_limit: float = 4.0,
) -> Plan:
    """Finds what a module should run again so that it fits a memory budget, at the least cost.

    Regions and their policies are kept to: what they save is saved, and the plan is made of the
    program that they give. Modules without any are planned as they are. The plan's module is proven
    to compute the same.

    Args:
      x: what `jax.jit(f).lower(...)` returns, an MLIR module, StableHLO text, or bytes. It isn't
        changed.
      memory_budget: bytes of one device as XLA's `memory_analysis()` counts them, arguments +
        outputs + temp - aliased: a number, "8GiB", or "80%" of the device's memory; or "min" for
        the least memory.
      policy: "auto", instead of a budget: as little memory as costs no time.
      target: platform that the program is compiled for; see `apply`.
      compile_check: compile the program once and its plan up to three times to see what XLA makes
        of them. Otherwise, and where no device of the target is here, the model of the program
        has to do.
      verify: prove that the planned program computes the same.
      time_limit: seconds for each of at most some ten solves.

    Returns:
      The plan. `print` shows it as a page; `apply(x, plan=plan)` gives its program.

    Raises:
      BudgetError: where no plan fits, or none is found; the smallest one is in it.
      DiagnosticError: where the module can't be read or rewritten.
      ValueError: for a budget or policy that isn't one.
    """
    if (memory_budget is None) == (policy is None):
        raise ValueError('say how much memory there is (memory_budget="8GiB") or policy="auto"')
    if policy not in (None, "auto"):
        raise ValueError(f"policy={policy!r} is not 'auto'")
    platform = _platform(x, target)
    budget = None if memory_budget in (None, "min") else read_budget(memory_budget, platform)
    search = _search(x, platform, compile_check, verify, time_limit)
    if budget is not None:
        found = search.within(budget)
    else:
        found = search.least() if memory_budget == "min" else search.free()
    return dataclasses.replace(found, source=x)


def frontier(
    x: Any,
    *,
    points: int = 8,
    target: str | None = None,
    compile_check: bool = True,
    verify: bool = True,
    time_limit: float = 4.0,
) -> list[Plan]:
    """Plans from the least memory that is found to no recompute at all.

    The program is compiled once (unless `compile_check` is False), the plans are not: what they
    take is predicted. A plan that another one beats in memory and cost is left out. The other
    arguments are those of `plan`.
    """
    search = _search(x, _platform(x, target), compile_check, verify, time_limit)
    return search.frontier(points)


def planned(x: Any, plan: Plan) -> tuple[bytes, Any]:
    """The module of a plan as bytecode, and the Lowered that was compiled for it, if one was, for
    the very `x` that the plan was made of. Raises PlanError where it was made of another module."""
    if plan.lowered is not None and plan.source is x:
        return plan.module, plan.lowered
    module, _ = module_io.read(_source(x))
    if fingerprint(module) != plan.fingerprint:
        raise PlanError("this plan was made of another module: plan again")
    return plan.module, None


def read_budget(budget: int | str, platform: str) -> int:
    """Bytes of `8GiB`, `80%` or a number. Raises ValueError."""
    if not isinstance(budget, str):
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
            raise ValueError(f"memory_budget={budget!r} isn't a number of bytes")
        return budget
    if not budget.strip().endswith("%"):
        return parse_bytes(budget)
    memory = _compat.device_memory(platform)
    try:
        percent = float(budget.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 < percent <= 100:
        raise ValueError(f"memory_budget={budget!r} isn't a share of the device's memory")
    if memory is None:
        raise ValueError(
            f"memory_budget={budget!r} is a share of the device's memory, and there is no "
            f"{platform} device here that says how much it has; give bytes, such as '8GiB'"
        )
    return int(memory * percent / 100)


def _platform(x: Any, target: str | None) -> str:
    if target is None and _compat.is_lowered(x):
        platforms = _compat.lowered_platforms(x)
        target = platforms[0] if len(platforms) == 1 else "other"
    return "gpu" if target in ("cuda", "rocm") else target or "cpu"


def _source(x: Any) -> Any:
    return module_io.bytecode(x.compiler_ir("stablehlo")) if _compat.is_lowered(x) else x


def _search(x: Any, platform: str, compile_check: bool, verify: bool, time_limit: float) -> Search:
    source = _source(x)
    # In a context of our own: JAX caches and shares the module, and its context.
    module = module_io.parse(source) if _compat.is_lowered(x) else module_io.read(source)[0]
    setting = Setting(
        platform,
        target_named(_compat.device_description(platform) if compile_check else platform),
        _compiler(x, module, platform) if compile_check else None,
        LowerRecompute(target=platform),
        verify=verify,
        time_limit=time_limit,
        progress=functools.partial(_logger.info, "planning: %s"),
    )
    return Search(module, setting)


def _compiler(
    x: Any, module: ir.Module, platform: str
) -> Callable[[ir.Module, Mapping[str, str]], Compiled] | None:
    if _compat.is_lowered(x):

        def compile_lowered(planned: ir.Module, options: Mapping[str, str]) -> Compiled:
            from hlo_remat.frontend.lowered import with_module  # here, for it imports jax

            lowered = with_module(x, planned, options)
            compiled = lowered.compile()
            return Compiled(compiled.as_text(), Memory.of(compiled.memory_analysis()), lowered)

        return compile_lowered
    attributes = module.operation.attributes
    counts = [n for n in ("mhlo.num_partitions", "mhlo.num_replicas") if n in attributes]
    if any(ir.IntegerAttr(attributes[n]).value != 1 for n in counts):
        return None

    def compile_module(planned: ir.Module, options: Mapping[str, str]) -> Compiled:
        text, analysis = _compat.compile_module(planned, platform, options)
        return Compiled(text, Memory.of(analysis))

    return compile_module if _compat.has_device(platform) else None
