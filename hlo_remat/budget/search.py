# SPDX-License-Identifier: Apache-2.0
"""From a module and a budget to the module that fits: predict, compile, compare, tighten."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from hlo_remat import module_io
from hlo_remat.budget.memory import fixed_bytes, temp_bytes
from hlo_remat.budget.plan import Again, Plan
from hlo_remat.budget.program import Program, read_program
from hlo_remat.budget.twins import merge_twins
from hlo_remat.budget.write import write
from hlo_remat.cost.targets import Target
from hlo_remat.cost.xla import Compiled, Schedule, learn
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.errors import BudgetError, VerificationError
from hlo_remat.ir.fence import fence_options
from hlo_remat.ir.purity import Purity
from hlo_remat.passes.dead_carry import DeadCarry
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.pin_buffers import PinBuffers
from hlo_remat.passes.pipeline import Pipeline
from hlo_remat.passes.recompute import Recompute
from hlo_remat.passes.strip import Strip
from hlo_remat.planner import plan as planner
from hlo_remat.planner.plan import Status
from hlo_remat.planner.simulate import recompute_cost, simulate
from hlo_remat.planner.solve import solve
from hlo_remat.validation.verify import verify_operations

MAX_COMPILES = 3  # of plans; the program without one is compiled once besides
FREE = 0.005  # of the program's time: what `policy="auto"` may cost, which no clock can tell
_CLOSE = 0.97  # of the budget: a plan that takes so much of it isn't loosened
_POINTS = (0.0, 0.06, 0.15)  # of the way to no recompute: where the least memory is looked for
_SCHEDULERS = {"cpu": {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}}
_STEPS = 7  # of the bisection for what costs nothing

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a module is planned for.

    - `function`: the symbol of the function that is planned.
    - `platform`: that it is compiled for, "cpu" or "gpu"; `machine`: what its time is counted on.
    - `compile`: compiles a module with options of the compiler; None where the model of the program
      has to do.
    - `lower`: how recomputes are fenced.
    """

    platform: str
    machine: Target
    compile: Callable[[ir.Module, Mapping[str, str]], Compiled] | None
    lower: LowerRecompute
    function: str = "main"
    verify: bool = True
    time_limit: float = 10.0
    progress: Progress = lambda _: None


@dataclasses.dataclass(frozen=True)
class _Tried:
    """A plan of the graph, what it is predicted to take, and what became of it."""

    solved: planner.Plan
    predicted: int
    module: ir.Module
    compiled: Compiled | None = None

    @property
    def temp(self) -> int:
        return self.predicted if self.compiled is None else self.compiled.memory.temp


class Search:
    """Plans for one module. Raises DiagnosticError where it can't be read or rewritten."""

    def __init__(self, module: ir.Module, setting: Setting):
        self.start = time.monotonic()
        self.setting = setting
        self.before = module
        self.fingerprint = fingerprint(module)
        self.compiles = 0
        setting.progress("reading the program")
        self.module = module_io.copy(module)
        # Without the fences in front of loops, through which no stack's origin is proven.
        passes = default_pipeline(lower=setting.lower).elements
        unpinned = Pipeline(tuple(p for p in passes if not isinstance(p, PinBuffers)))
        self.run_passes(unpinned, self.module)
        merge_twins(self.function(self.module), Purity(self.module))
        self.schedule: Schedule | None = None
        if setting.compile is not None:
            setting.progress("compiling the program without a plan")
            self.schedule = learn(self.module, setting.function, self.compile)
        self.program = self.read(self.module)
        execution = simulate(self.program.graph)
        self.peak, model = execution.peak, temp_bytes(self.program, execution)
        if self.schedule is None:
            fixed, temp = fixed_bytes(self.function(self.module)), model
        else:
            fixed, temp = self.schedule.memory.fixed, self.schedule.memory.temp
        self.fixed, self.temp = fixed, temp
        self.scale = temp / model if model else 1.0
        self.hosted = self.peak - model

    # -- what is asked for ---------------------------------------------------------------------

    def within(self, budget: int) -> Plan:
        """The cheapest plan found whose memory is at most `budget` bytes. Raises BudgetError."""
        goal = budget - self.fixed
        if self.temp <= goal:
            return self.unchanged("The program fits as it is.", budget)
        best, smallest, solved = None, None, None
        scale, seen = self.scale, set()
        for _ in range(MAX_COMPILES):
            solved = self.solve(goal, scale)
            if solved.recomputes in seen or (
                best is not None and solved.extra_cost >= 0.98 * best.solved.extra_cost
            ):
                break
            seen.add(solved.recomputes)
            tried = self.build(solved, scale)
            if smallest is None or tried.temp < smallest.temp:
                smallest = tried
            if tried.temp <= goal and (best is None or self.cost(tried) < self.cost(best)):
                best = tried
            if tried.compiled is None or _CLOSE * goal <= tried.temp <= goal:
                break
            scale *= tried.temp / max(tried.predicted, 1)
        if best is not None:
            return self.finish(best, "The plan fits the budget.", budget)
        assert smallest is not None
        assert solved is not None
        is_proven = self.fixed > budget or solved.status is Status.IMPOSSIBLE
        if smallest.temp < self.temp:
            found = self.finish(smallest, "The smallest plan found.", budget)
        else:
            found = self.unchanged("No plan needs less than the program as it is.", budget)
        raise BudgetError(budget, is_proven, found)

    def least(self) -> Plan:
        """The plan of least memory that is found."""
        best, seen = None, set()
        low = self.solve(0, self.scale).peak_bytes
        for point in _POINTS:
            solved = solve(
                self.program.graph,
                low + int(point * (self.peak - low)),
                time_limit=self.setting.time_limit,
            )
            if solved.recomputes in seen or not solved.recomputes:
                continue
            seen.add(solved.recomputes)
            tried = self.build(solved, self.scale)
            if best is None or (tried.temp, self.cost(tried)) < (best.temp, self.cost(best)):
                best = tried
            if tried.compiled is None:
                break
        if best is None or best.temp >= self.temp:
            return self.unchanged("No plan needs less than the program as it is.", None)
        return self.finish(best, "The plan of least memory that was found.", None)

    def free(self) -> Plan:
        """The plan of least memory among those that cost no time."""
        graph = self.program.graph
        low, high = self.solve(0, self.scale).peak_bytes, self.peak
        found: planner.Plan | None = None
        for _ in range(_STEPS):
            middle = (low + high) // 2
            solved = solve(graph, middle, time_limit=self.setting.time_limit / _STEPS)
            if solved.status.has_plan and solved.extra_cost <= FREE * graph.total_cost:
                found, high = solved, solved.peak_bytes
            else:
                low = middle
        if found is not None and found.recomputes:
            tried = self.build(found, self.scale)
            if tried.temp < self.temp:
                return self.finish(tried, "What the plan runs again costs no time.", None)
        return self.unchanged("Nothing that costs no time needs less memory.", None)

    def frontier(self, points: int) -> list[Plan]:
        """Plans from the least memory to no recompute, by the model."""
        low = self.solve(0, self.scale).peak_bytes
        found = []
        for i in range(points):
            budget = low + (self.peak - low) * i // max(points - 1, 1)
            self.setting.progress(f"point {i + 1} of {points}")
            found.append(solve(self.program.graph, budget, time_limit=self.setting.time_limit / 2))
        plans, last = [], float("inf")
        for solved in sorted(found, key=lambda p: (p.peak_bytes, p.extra_cost)):
            if not solved.recomputes:
                plans.append(self.unchanged("Nothing runs again.", None))
                break
            if solved.extra_cost < last:
                last = solved.extra_cost
                tried = self.build(solved, self.scale, compile=False)
                plans.append(self.finish(tried, "A plan of the frontier.", None))
        return plans

    # -- steps ---------------------------------------------------------------------------------

    def solve(self, goal: int, scale: float) -> planner.Plan:
        """The cheapest plan of the graph that is predicted to have `goal` temporary bytes, or the
        one of least memory."""
        self.setting.progress("solving")
        graph = self.program.graph
        budget = int(goal / scale) + self.hosted
        for _ in range(MAX_COMPILES):
            solved = solve(graph, max(budget, 0), time_limit=self.setting.time_limit)
            if not solved.status.has_plan:
                break
            excess = self.predict(solved.recomputes, scale) - goal
            if excess <= 0:
                break
            budget -= int(excess / scale) + 1
        return solved

    def predict(self, recomputes: Sequence[planner.Recompute], scale: float) -> int:
        execution = simulate(self.program.graph, recomputes)
        return int(scale * temp_bytes(self.program, execution))

    def build(self, solved: planner.Plan, scale: float, compile: bool = True) -> _Tried:
        """Writes a plan, proves it, and compiles it."""
        module = module_io.copy(self.module)
        write(module, self.read(module), solved.recomputes)
        lower = self.setting.lower
        pin = PinBuffers(target=lower.target, jaxlib=lower.jaxlib)
        steps = (Recompute(), lower, Strip(), "symbol-dce", DeadCarry(), pin)
        self.run_passes(Pipeline(steps), module)
        if self.setting.verify:
            self.setting.progress("proving the plan")
            verification = verify_operations(self.before.operation, module.operation)
            if not verification:
                raise VerificationError(verification)
        compiled = None
        if compile and self.setting.compile is not None:
            self.setting.progress("compiling the plan")
            compiled = self.compile(module)
        return _Tried(solved, self.predict(solved.recomputes, scale), module, compiled)

    def compile(self, module: ir.Module) -> Compiled:
        assert self.setting.compile is not None
        self.compiles += 1
        return self.setting.compile(module, self.options(module))

    def options(self, module: ir.Module) -> dict[str, str]:
        """What the compiler is to be told for a module: to schedule for memory, and what the
        module's fences need."""
        fences = fence_options(module, self.setting.platform)
        return _SCHEDULERS.get(self.setting.platform, {}) | fences

    def run_passes(self, pipeline: Pipeline, module: ir.Module) -> None:
        diagnostics = Diagnostics()
        pipeline.run(module, diagnostics=diagnostics, verify_each=False)
        module_io.verify(module, diagnostics)

    def read(self, module: ir.Module) -> Program:
        return read_program(
            self.function(module), Purity(module), self.setting.machine, self.schedule
        )

    def function(self, module: ir.Module) -> ir.Operation:
        return ir.SymbolTable(module.operation)[self.setting.function].operation

    def cost(self, tried: _Tried) -> float:
        return recompute_cost(self.program.graph, tried.solved.recomputes)

    # -- results -------------------------------------------------------------------------------

    def unchanged(self, reason: str, budget: int | None) -> Plan:
        solved = solve(self.program.graph, self.peak)
        compiled = None if self.schedule is None else Compiled("", self.schedule.memory)
        return self.finish(_Tried(solved, self.temp, self.module, compiled), reason, budget)

    def finish(self, tried: _Tried, reason: str, budget: int | None) -> Plan:
        program, solved = self.program, tried.solved
        graph = program.graph
        least = int(self.scale * max(0, solved.structural_minimum_bytes - self.hosted))
        return Plan(
            status=solved.status,
            reason=reason,
            target=self.setting.platform,
            budget_bytes=budget,
            predicted_bytes=self.fixed + tried.predicted,
            measured_bytes=None if tried.compiled is None else tried.compiled.memory.total,
            baseline_bytes=self.fixed + self.temp,
            fixed_bytes=self.fixed,
            minimum_bytes=self.fixed + least,
            minimum_op=solved.structural_minimum_op,
            again=again(program, solved.recomputes),
            total_flops=float(sum(program.flops)),
            total_seconds=graph.total_cost,
            lower_bound_seconds=solved.lower_bound,
            live=kept(program, solved),
            compiler_options=self.options(tried.module),
            compiles=self.compiles,
            seconds=time.monotonic() - self.start,
            solver=solved.solver,
            module=module_io.bytecode(tried.module),
            fingerprint=self.fingerprint,
            lowered=None if tried.compiled is None else tried.compiled.program,
        )


def again(program: Program, recomputes: Sequence[planner.Recompute]) -> tuple[Again, ...]:
    """What runs again, by place in the source."""
    graph = program.graph
    found: dict[str, Again] = {}
    for r in recomputes:
        where = graph.describe(r.op)
        old = found.get(where, Again(where, 0, 0, 0.0, 0.0))
        size = int(graph.stacked_bytes[list(graph.ops[r.op].results)].sum())
        found[where] = Again(
            where,
            old.runs + 1,
            old.bytes + size,
            old.flops + program.flops[r.op],
            old.seconds + graph.ops[r.op].cost,
        )
    return tuple(sorted(found.values(), key=lambda a: (-a.seconds, a.where)))


def kept(program: Program, solved: planner.Plan) -> tuple[tuple[str, int], ...]:
    """What is live at the plan's peak, by place in the source."""
    found: dict[str, int] = {}
    for name, size in solved.live:
        found[name] = found.get(name, 0) + size
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def fingerprint(module: ir.Module) -> str:
    """Of what a module computes, without its locations."""
    text = module.operation.get_asm(enable_debug_info=False, large_elements_limit=None)
    return hashlib.sha256(str(text).encode()).hexdigest()
