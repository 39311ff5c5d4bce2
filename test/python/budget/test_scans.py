# SPDX-License-Identifier: Apache-2.0
"""Plans for the gradients of scans, written and lowered: XLA's memory, the proof, the results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

import hlo_remat
from hlo_remat import module_io
from hlo_remat.budget.program import Program, read_program
from hlo_remat.budget.scans import write_scan
from hlo_remat.budget.twins import merge_twins
from hlo_remat.budget.write import write
from hlo_remat.cost.targets import target_named
from hlo_remat.errors import PlanError
from hlo_remat.frontend.lowered import with_module
from hlo_remat.ir.fence import fence_options
from hlo_remat.ir.purity import Purity
from hlo_remat.passes.dead_carry import DeadCarry
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.pin_buffers import PinBuffers
from hlo_remat.passes.pipeline import Pipeline
from hlo_remat.passes.recompute import Recompute
from hlo_remat.passes.strip import Strip
from hlo_remat.planner.plan import Plan
from hlo_remat.planner.simulate import simulate
from hlo_remat.planner.solve import solve
from hlo_remat.validation.verify import verify_operations

TRIPS, ROWS, WIDTH = 8, 64, 64
OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
INLINED = "builtin.module(hlo-remat-inline,hlo-remat-strip,symbol-dce,hlo-remat-dead-carry)"
LOWER = Pipeline((Recompute(), LowerRecompute(), Strip(), "symbol-dce", DeadCarry(), PinBuffers()))
Array = jax.Array


def block(h: Array, w: Array) -> Array:
    a = jnp.tanh(h @ w[0])
    return h + jnp.tanh((jnp.sin(a) * 0.5) @ w[1])


def layer(h: Array, w: Array) -> tuple[Array, None]:
    return block(h, w), None


def scanned(
    body: Callable[[Any, Any], Any] = layer,
    start: Callable[[Array], Any] = lambda x: x,
    **options: Any,
) -> Callable[[Array, Array], Array]:
    """The loss of a scan over weights, whose carry is an array or starts with one."""

    def loss(ws: Array, x: Array) -> Array:
        carry, ys = jax.lax.scan(
            body or (lambda h, w: (block(h, w), None)), start(x), ws, **options
        )
        return sum(jnp.sum(v * v) for v in jax.tree.leaves((carry, ys)) if v.dtype == x.dtype)

    return loss


def constants(ws: Array, x: Array) -> Array:
    """Nothing is stacked, and what the body reads is made outside of the loop."""
    w, s = jnp.sin(ws[0]), jnp.cumsum(jax.lax.stop_gradient(x), 0)

    def body(h: Array, _: None) -> tuple[Array, None]:
        return block(jnp.tanh(h) * jnp.cos(s * jnp.floor(h)), w), None

    h, _ = jax.lax.scan(body, x, None, length=TRIPS)
    return jnp.sum(h * h)


def outputs(h: Array, w: Array) -> Any:
    h = block(h, w)
    return h, (jnp.sin(h), jnp.sum(h * h))


def counted(carry: Any, w: Array) -> Any:
    """Integers that are affine in the trip, and a key that isn't."""
    h, i, key = carry
    h = block(h, w) * jnp.sin(i.astype(jnp.float32) * 0.1)
    key, now = jax.random.split(key)
    return (h * jax.random.bernoulli(now, 0.9, h.shape), i + 2, key), None


def summed(carry: Any, w: Array) -> Any:
    h, total = carry
    h = block(h, w)
    total = total + h * 0.1
    return (h, total), jnp.sum(jnp.tanh(total))


def inner(h: Array, w: Array) -> Any:
    g, _ = jax.lax.scan(lambda g, _: (jnp.tanh(g @ w[0]), None), h, None, length=3)
    return h + jnp.tanh(jnp.tanh(g) @ w[1]), None


def attention(h: Array, w: Array) -> Any:
    """The recompute starts from sums, which the program reads broadcast."""
    a = jax.nn.softmax(h @ h.T / 8.0)
    return h + jnp.tanh(a @ h @ w[0]) @ w[1], None


def branch(h: Array, w: Array) -> Any:
    g = jax.lax.cond(jnp.sum(h) > 0, lambda: jnp.tanh(h @ w[0]), lambda: jnp.sin(h))
    return h + jnp.tanh(g @ w[1]), None


def between(ws: Array, x: Array) -> Array:
    """Two loops, and ops of the function's own around them that run again as well."""

    for _ in range(3):
        x = jnp.sin(jnp.tanh(x @ ws[0, 0]))
    h, _ = jax.lax.scan(layer, x, ws)
    h, _ = jax.lax.scan(layer, jnp.sin(h), jnp.sin(ws))
    return jnp.sum(h * h)


LOSSES = {
    "xs": scanned(),
    "reverse": scanned(reverse=True),
    "unroll": scanned(unroll=2),
    "constants": constants,
    "outputs": scanned(outputs),
    "counted": scanned(counted, lambda x: (x, jnp.int32(3), jax.random.key(0))),
    "summed": scanned(summed, lambda x: (x, x)),
    "inner": scanned(inner),
    "attention": scanned(attention),
    "branch": scanned(branch),
    "between": between,
}


@functools.cache
def plain(name: str) -> tuple[Any, bytes, list[Any], Any]:
    """The gradient as JAX lowers it, with its module without calls, arguments and results."""
    keys = jax.random.split(jax.random.key(1))
    arguments = [
        jax.random.normal(keys[0], (TRIPS, 2, WIDTH, WIDTH)) * 0.1,
        jax.random.normal(keys[1], (ROWS, WIDTH)),
    ]
    lowered = jax.jit(jax.grad(LOSSES[name], argnums=(0, 1))).lower(*arguments)
    inlined = hlo_remat.apply(lowered, pipeline=INLINED)
    return (
        inlined,
        module_io.bytecode(inlined.compiler_ir("stablehlo")),
        arguments,
        inlined.compile(OPTIONS),
    )


def read(name: str) -> tuple[ir.Module, Program]:
    module = module_io.parse(plain(name)[1])
    purity = Purity(module)
    function = ir.SymbolTable(module.operation)["main"].operation
    with module.context:
        merge_twins(function, purity)
        return module, read_program(function, purity, target_named("cpu"))


def planned(program: Program, fraction: float) -> Plan:
    peak = simulate(program.graph).peak
    return solve(program.graph, int(fraction * peak), time_limit=2)


def lowered(module: ir.Module, program: Program, plan: Plan) -> None:
    with module.context, ir.Location.unknown(module.context):
        write(module, program, plan.recomputes)
        assert module.operation.verify()
        LOWER.run(module)
        assert module.operation.verify()


@pytest.mark.parametrize("fraction", [0.8, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_plans_of_scans_save_their_memory(name: str, fraction: float) -> None:
    inlined, _, arguments, base = plain(name)
    module, program = read(name)
    before = module_io.copy(module)
    plan = planned(program, fraction)
    assert plan.status.has_plan
    assert any(program.graph.ops[r.before].loop is not None for r in plan.recomputes)
    lowered(module, program, plan)
    assert verify_operations(before.operation, module.operation)
    compiled = with_module(inlined, module, fence_options(module, "cpu")).compile(OPTIONS)
    saved, predicted = (
        base.memory_analysis().temp_size_in_bytes - compiled.memory_analysis().temp_size_in_bytes,
        simulate(program.graph).peak - plan.peak_bytes,
    )
    assert saved > 0.8 * predicted
    for a, b in zip(base(*arguments), compiled(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_can_not_be_handed_over_changes_nothing() -> None:
    """Shardings of GSPMD are one string for all that a loop carries: no stack can be added."""
    module, program = read("xs")
    ops = [
        i
        for i, op in enumerate(program.graph.ops)
        if op.loop == 0 and op.is_recomputable and "dot_general" not in op.name
    ]
    made = {v for i in ops for v in program.graph.ops[i].results}
    (reads,) = program.reads.values()
    targets = [program.value_of[v] for v, _ in reads if program.value_of[v] in made]
    with module.context:
        for scan in program.scans:
            program.index.ops[scan.op].attributes["mhlo.sharding"] = ir.StringAttr.get("")
        text = str(module)
        symbols = ir.SymbolTable(module.operation)
        with pytest.raises(PlanError, match="can't be handed to the backward loop"):
            write_scan(module, symbols, program, 1, ops, targets)
    assert str(module) == text


def test_what_a_trip_reads_is_no_accumulator() -> None:
    """What would run again from it would need a row of each trip."""
    _, program = read("summed")
    graph = program.graph
    inside = {v for op in graph.ops if op.loop == 0 for v in op.results}
    views = {v for v in inside if graph.values[v].alias_of is not None}
    assert all(views.isdisjoint(op.operands) for op in graph.ops if op.is_recomputable)
