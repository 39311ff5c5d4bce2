# SPDX-License-Identifier: Apache-2.0
"""Pairs of modules that compute the same: what the suite's programs are before and after stages."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

PYTHON = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(PYTHON), *(str(PYTHON / name) for name in ("frontend", "passes", "models"))]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import test_control_flow as control_flow  # noqa: E402
from jax.sharding import AbstractMesh, AxisType  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from stages import stages  # noqa: E402

import hlo_remat  # noqa: E402
from hlo_remat.passes.lower_recompute import LowerRecompute  # noqa: E402

LIT = PYTHON.parent / "lit" / "passes"
FENCES = [
    LowerRecompute(strategy=strategy, scope=scope)
    for scope in ("operands", "recompute", "backward")
    for strategy in ("call", "optimization-barrier", "case", "while")
]


class Pair(NamedTuple):
    name: str
    before: str
    after: str


def _pairs(name: str, text: str, lower: LowerRecompute | None = None) -> Iterator[Pair]:
    """A pair for each stage of the pipeline that changes the module."""
    last = text
    for stage, after in stages(text, lower=lower):
        if after != last:
            yield Pair(f"{name}, after {stage.partition('{')[0]}", text, after)
        last = after


def lit_pairs() -> Iterator[Pair]:
    for file in sorted(LIT.glob("*.mlir")):
        if file.stem.endswith("-invalid"):
            continue
        for n, text in enumerate(file.read_text().split("// -----\n")):
            yield from _pairs(f"{file.stem} {n}", text)


# Effects that are not in the function itself: of functions that it calls, in loops and branches.
EFFECTS = """
sdy.mesh @mesh = <["a"=2]>
func.func private @log(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}
func.func @main(%p: tensor<i1>, %x: tensor<f32>, %y: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %0 = stablehlo.composite "my.log" %x {decomposition = @log} : (tensor<f32>) -> tensor<f32>
  %1 = func.call @log(%x) : (tensor<f32>) -> tensor<f32>
  %2:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f32>
  cond {
    %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %4 = stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %5 = stablehlo.sine %c : tensor<f32>
    %6 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %6, %5 : tensor<i32>, tensor<f32>
  }
  %7 = "stablehlo.if"(%p) ({
    %8 = stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    stablehlo.return %2#1 : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  %9 = sdy.manual_computation(%y) in_shardings=[<@mesh, [{"a"}]>] out_shardings=[<@mesh, [{"a"}]>] manual_axes={"a"} (%z: tensor<1xf32>) {
    %10 = stablehlo.constant dense<1.0> : tensor<f32>
    %11 = stablehlo.custom_call @log(%10) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %12 = stablehlo.sine %z : tensor<1xf32>
    sdy.return %12 : tensor<1xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  return %7, %9 : tensor<f32>, tensor<2xf32>
}
"""  # noqa: E501

# Carries that start alike and go on alike, as far as can be seen without solving the loop.
ALIKE = """
func.func @main(%x: tensor<f32>, %y: tensor<f32>, %n: tensor<i32>, %q: tensor<i1>)
    -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1:2 = "stablehlo.if"(%q) ({
      %2 = stablehlo.sine %b : tensor<f32>
      %3 = stablehlo.exponential %a : tensor<f32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<f32>
    }, {
      stablehlo.return %a, %b : tensor<f32>, tensor<f32>
    }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %1#0, %1#1 : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %0#1, %0#2 : tensor<f32>, tensor<f32>
}
"""


def own_pairs() -> Iterator[Pair]:
    yield Pair("effects", EFFECTS, EFFECTS)
    yield Pair("alike", ALIKE, ALIKE)


# -- programs of JAX ---------------------------------------------------------------------------

V = np.array([0.3, -0.7, 1.1], np.float32)


def scalar(f: Callable) -> Callable:
    return lambda x: jnp.sum(f(x) * jnp.array([1.0, -2.0, 3.0]))


def control_flow_text(make: Callable) -> str:
    shapes = {"WIDTH": 3, "BATCH": 4}
    w, x = control_flow.W[..., :3, :3], control_flow.X[:4, :3]
    kept = {name: getattr(control_flow, name) for name in shapes}
    vars(control_flow).update(shapes)
    try:
        lowered = control_flow.gradient(
            make, hlo_remat.checkpoint, hlo_remat.checkpoint_name
        ).lower(w, x)
    finally:
        vars(control_flow).update(kept)
    return lowered.as_text()


def inside_text(inside: Callable) -> str:
    x = np.cos(np.arange(10 * 8, dtype=np.float32)).reshape(10, 8)
    f = hlo_remat.checkpoint(lambda x: jnp.sum(jnp.tanh(inside(jnp.sin(x)))) + jnp.sum(inside(x)))
    return jax.jit(jax.grad(f)).lower(x).as_text()


def with_effects_text() -> str:
    @hlo_remat.checkpoint
    def f(x):
        jax.debug.print("{}", x[0])
        y = jnp.sin(jnp.sin(x))
        jax.debug.print("{}", y[1])
        return y

    def loss(x):
        y, _ = jax.lax.scan(lambda c, _: (f(c), None), f(x), None, length=2)
        return jnp.sum(y)

    return jax.jit(jax.grad(loss)).lower(V).as_text()


def sharded_text(scanned: bool) -> str:
    mesh = AbstractMesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    run = hlo_remat.checkpoint(lambda w, x: x + jnp.tanh(jnp.sin(x @ w[0]) @ w[1]))

    def local(w, x):
        if scanned:
            x = jax.lax.scan(lambda c, w: (run(w, c), None), x, w)[0]
        else:
            x = run(w[1], run(w[0], x))
        return jax.lax.psum(jnp.sum(x**2), ("a", "b"))

    f = jax.shard_map(local, mesh=mesh, in_specs=(P(), P(("a", "b"))), out_specs=P())
    w, x = control_flow.W[:2, ..., :3, :3], control_flow.X[:8, :3]
    return (
        jax.jit(jax.grad(f, argnums=(0, 1)))
        .trace(w, x)
        .lower(lowering_platforms=("cpu",))
        .as_text()
    )


def _texts() -> Iterator[tuple[str, Callable[[], str]]]:
    for program in PROGRAMS:
        f = scalar(program(hlo_remat.checkpoint))
        yield program.__name__, lambda f=f: jax.jit(jax.value_and_grad(f)).lower(V).as_text()
    for name, make in control_flow.PROGRAMS.items():
        yield name, functools.partial(control_flow_text, make)
    for name, inside in control_flow.INSIDE.items():
        yield f"inside: {name}", functools.partial(inside_text, inside)
    yield "with effects", with_effects_text
    yield "sharded", functools.partial(sharded_text, False)
    yield "sharded scan", functools.partial(sharded_text, True)


def jax_pairs() -> Iterator[Pair]:
    """Each program with one kind of fence."""
    for n, (name, text) in enumerate(_texts()):
        yield from _pairs(name, text(), FENCES[n % len(FENCES)])
