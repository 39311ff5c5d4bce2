# SPDX-License-Identifier: Apache-2.0
"""From a module and a budget to the module that fits: predict, compile, compare, tighten."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

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
from hlo_remat.planner.bounds import structural_minimum
from hlo_remat.planner.plan import Status
from hlo_remat.planner.simulate import Recompute as Run
from hlo_remat.planner.simulate import recompute_cost, simulate
from hlo_remat.planner.solve import solve
from hlo_remat.validation.verify import verify_operations

MAX_COMPILES = 3  # of plans; the program without one is compiled once besides
FREE = 0.005  # of the program's time: what `policy="auto"` may cost, which no clock can tell
_CLOSE = 0.97  # of the budget: a plan that takes so much of it isn't loosened
_CHEAPER = 0.9  # of a plan's cost: a plan that costs more isn't worth another compile
_TIGHTER = (100, 97, 90, 80)  # percent of a budget: where its plan was seen before
_LARGER = 12  # of the way from the least memory to no recompute: a plan that may turn out smaller
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
    time_limit: float = 4.0
    progress: Progress = lambda _: None


@dataclasses.dataclass(frozen=True)
class _View:
    """The program in one order, which XLA may follow or not.

    - `peak`, `hosted`: most bytes of its graph, and how many of them lie in results' memory.
    - `offset`: what XLA's temporary memory is more than the model's.
    """

    program: Program
    in_its_order: bool
    peak: int
    hosted: int
    offset: int

    def predict(self, recomputes: Sequence[Run]) -> int:
        """XLA's temporary bytes."""
        return temp_bytes(self.program, simulate(self.program.graph, recomputes)) + self.offset


@dataclasses.dataclass(frozen=True)
class _Tried:
    """A plan of a view's graph, what it is predicted to take, and what became of it."""

    view: _View
    solved: planner.Plan
    predicted: int
    module: ir.Module
    compiled: Compiled | None = None

    @property
    def temp(self) -> int:
        return self.predicted if self.compiled is None else self.compiled.memory.temp

    @property
    def cost(self) -> float:
        """Seconds of what runs again."""
        return recompute_cost(self.view.program.graph, self.solved.recomputes)


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
        programs = [(self.read(self.module, True), True)]
        if self.schedule is not None:
            programs.append((self.read(self.module, False), False))
        models = []
        for program, in_its_order in programs:
            execution = simulate(program.graph)
            models.append((program, in_its_order, execution.peak, temp_bytes(program, execution)))
        if self.schedule is None:
            self.fixed, self.temp = fixed_bytes(self.function(self.module)), models[0][-1]
        else:
            self.fixed, self.temp = self.schedule.memory.fixed, self.schedule.memory.temp
        self.views = [
            _View(program, in_its_order, peak, peak - model, max(0, self.temp - model))
            for program, in_its_order, peak, model in models
        ]

    # -- what is asked for ---------------------------------------------------------------------

    def within(self, budget: int) -> Plan:
        """The cheapest plan found whose memory is at most `budget` bytes. Raises BudgetError."""
        goal = budget - self.fixed
        if self.temp <= goal:
            return self.unchanged("The program fits as it is.", budget)
        best: _Tried | None = None
        smallest: _Tried | None = None
        aims, seen = [goal] * len(self.views), set[tuple[int, object]]()
        for attempt in range(1, MAX_COMPILES + 1):
            found = self.cheapest(aims, seen)
            if found is None or (best is not None and found[1].extra_cost > _CHEAPER * best.cost):
                break
            k, solved = found
            seen.add((k, solved.recomputes))
            tried = self.build(self.views[k], solved)
            if smallest is None or tried.temp < smallest.temp:
                smallest = tried
            if tried.temp > goal:
                if best is not None or tried.compiled is None:
                    break
                aims[k] -= attempt * (tried.temp - goal)
            else:
                if best is None or tried.cost < best.cost:
                    best = tried
                is_free = tried.cost <= FREE * tried.view.program.graph.total_cost
                if is_free or tried.compiled is None or tried.temp > _CLOSE * goal:
                    break
                aims[k] += goal - tried.temp
        if best is not None:
            return self.finish(best, "The plan fits the budget.", budget)
        is_proven = self.fixed > budget or all(
            self.solve(view, goal).status is Status.IMPOSSIBLE for view in self.views
        )
        if smallest is not None and smallest.temp < self.temp:
            plan = self.finish(smallest, "The smallest plan found.", budget)
        else:
            plan = self.unchanged("No plan needs less than the program as it is.", budget)
        raise BudgetError(budget, is_proven, plan)

    def least(self) -> Plan:
        """The plan of least memory that is found."""
        best: _Tried | None = None
        solved = [(view, self.solve(view, 0)) for view in self.views]
        view, smallest = min(solved, key=lambda s: s[0].predict(s[1].recomputes))
        between = smallest.peak_bytes + (view.peak - smallest.peak_bytes) // _LARGER
        solved.append(
            (view, solve(view.program.graph, between, time_limit=self.setting.time_limit))
        )
        for view, plan in solved:
            if plan.recomputes:
                tried = self.build(view, plan)
                if best is None or (tried.temp, tried.cost) < (best.temp, best.cost):
                    best = tried
        if best is None or best.temp >= self.temp:
            return self.unchanged("No plan needs less than the program as it is.", None)
        return self.finish(best, "The plan of least memory that was found.", None)

    def free(self) -> Plan:
        """The plan of least memory among those that cost no time."""
        best: _Tried | None = None
        for view in self.views:
            graph = view.program.graph
            low, high = self.solve(view, 0).peak_bytes, view.peak
            found: planner.Plan | None = None
            for _ in range(_STEPS):
                middle = (low + high) // 2
                solved = solve(graph, middle, time_limit=self.setting.time_limit / _STEPS)
                if solved.status.has_plan and solved.extra_cost <= FREE * graph.total_cost:
                    found, high = solved, solved.peak_bytes
                else:
                    low = middle
            if found is not None and found.recomputes:
                tried = self.build(view, found)
                if tried.temp < (self.temp if best is None else best.temp):
                    best = tried
        if best is None:
            return self.unchanged("Nothing that costs no time needs less memory.", None)
        return self.finish(best, "What the plan runs again costs no time.", None)

    def frontier(self, points: int) -> list[Plan]:
        """Plans from the least memory to no recompute, by the model."""
        low = min(view.predict(self.solve(view, 0).recomputes) for view in self.views)
        found: list[tuple[int, float, _View, planner.Plan]] = []
        for i in range(points - 1):
            self.setting.progress(f"point {i + 1} of {points}")
            goal = low + (self.temp - low) * i // max(points - 1, 1)
            for view in self.views:
                solved = self.solve(view, goal)
                memory = view.predict(solved.recomputes)
                if solved.recomputes and memory < self.temp:
                    found.append((memory, solved.extra_cost, view, solved))
        plans, last = [], float("inf")
        for _, cost, view, solved in sorted(found, key=lambda f: f[:2]):
            if cost < last:
                last = cost
                tried = self.build(view, solved, compile=False)
                plans.append(self.finish(tried, "A plan of the frontier.", None))
        return [*plans, self.unchanged("Nothing runs again.", None)]

    # -- steps ---------------------------------------------------------------------------------

    def cheapest(
        self, aims: Sequence[int], seen: Collection[tuple[int, object]]
    ) -> tuple[int, planner.Plan] | None:
        """A view and its plan for its aim, in temporary bytes, or for fewer if that one was seen
        before: a plan that fits, by the model, before one that doesn't, then the cheapest. None
        where there is none but the program as it is."""
        found: list[tuple[bool, float, int, planner.Plan]] = []
        for k, view in enumerate(self.views):
            for percent in _TIGHTER:
                solved = self.solve(view, aims[k] * percent // 100)
                if (k, solved.recomputes) not in seen:
                    if solved.recomputes:
                        found.append((not solved.status.has_plan, solved.extra_cost, k, solved))
                    break
        return min(found, key=lambda f: f[:3])[2:] if found else None

    def solve(self, view: _View, goal: int) -> planner.Plan:
        """The cheapest plan of a view that is predicted to have `goal` temporary bytes, or the one
        of least memory."""
        self.setting.progress("solving")
        budget = goal - view.offset + view.hosted
        for _ in range(MAX_COMPILES):
            least = structural_minimum(view.program.graph).bytes
            solved = solve(
                view.program.graph, max(budget, least), time_limit=self.setting.time_limit
            )
            excess = view.predict(solved.recomputes) - goal
            if excess <= 0 or not solved.status.has_plan or budget < least:
                break
            budget -= excess
        return solved

    def build(self, view: _View, solved: planner.Plan, compile: bool = True) -> _Tried:
        """Writes a plan, proves it, and compiles it."""
        module = module_io.copy(self.module)
        write(module, self.read(module, view.in_its_order), solved.recomputes)
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
        return _Tried(view, solved, view.predict(solved.recomputes), module, compiled)

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

    def read(self, module: ir.Module, in_its_order: bool) -> Program:
        machine = self.setting.machine
        function = self.function(module)
        return read_program(function, Purity(module), machine, self.schedule, in_its_order)

    def function(self, module: ir.Module) -> ir.Operation:
        return ir.SymbolTable(module.operation)[self.setting.function].operation

    # -- results -------------------------------------------------------------------------------

    def unchanged(self, reason: str, budget: int | None) -> Plan:
        view = self.views[0]
        solved = solve(view.program.graph, view.peak)
        compiled = None if self.schedule is None else Compiled("", self.schedule.memory)
        return self.finish(_Tried(view, solved, self.temp, self.module, compiled), reason, budget)

    def finish(self, tried: _Tried, reason: str, budget: int | None) -> Plan:
        program, solved = tried.view.program, tried.solved
        least = max(0, solved.structural_minimum_bytes - tried.view.hosted)
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
            total_seconds=program.graph.total_cost,
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


def again(program: Program, recomputes: Sequence[Run]) -> tuple[Again, ...]:
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
