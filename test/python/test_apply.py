# SPDX-License-Identifier: Apache-2.0
"""`apply` on everything that it takes; what comes back and what stays as it is."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_regions import WS, X, close, has_markers, loss, plain, step, temp_bytes
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import hlo_remat
from hlo_remat import _compat, module_io


@pytest.fixture(scope="module")
def lowered():
    return step.lower(WS, X)


@pytest.fixture(scope="module")
def expected():
    return plain(WS, X)


# -- the kinds ---------------------------------------------------------------------------------


def test_lowered(lowered, expected):
    new = hlo_remat.apply(lowered)
    assert isinstance(new, jax.stages.Lowered)
    assert not has_markers(new.as_text())
    assert new.in_tree == lowered.in_tree
    assert new.out_tree == lowered.out_tree
    assert new.args_info == lowered.args_info
    assert new.cost_analysis()["flops"] > lowered.cost_analysis()["flops"]
    compiled = new.compile()
    close(compiled(WS, X), expected)
    assert temp_bytes(compiled) < 0.7 * temp_bytes(lowered.compile())
    assert compiled.cost_analysis()["flops"] > lowered.compile().cost_analysis()["flops"]


def test_module(lowered):
    module = module_io.parse(lowered.as_text())
    before = str(module)
    new = hlo_remat.apply(module, strategy="optimization-barrier")
    assert isinstance(new, ir.Module)
    assert new.context is module.context
    assert str(module) == before
    assert new.operation.verify()
    assert not has_markers(str(new))


def test_module_of_jax(lowered):
    """JAX caches it, so it must stay as it is."""
    module = lowered.compiler_ir("stablehlo")
    before = str(module)
    new = hlo_remat.apply(module)
    assert str(module) == before
    assert not has_markers(str(new))


def test_text(lowered):
    new = hlo_remat.apply(lowered.as_text())
    assert isinstance(new, str)
    assert not has_markers(new)
    assert "loc(" not in new
    with_locations = hlo_remat.apply(lowered.as_text(debug_info=True))
    assert "rematted_computation" in with_locations
    assert hlo_remat.apply(new) == new


def test_bytecode(lowered):
    given = module_io.bytecode(lowered.compiler_ir("stablehlo"))
    new = hlo_remat.apply(given)
    assert isinstance(new, bytes)
    assert new.startswith(b"ML\xefR")
    assert not has_markers(str(module_io.parse(new)))


def test_portable_artifact(lowered):
    version = "1.9.0"
    own = module_io.parse(lowered.as_text())  # serialising turns the module itself into VHLO
    given = stablehlo.serialize_portable_artifact(own, version)
    new = hlo_remat.apply(given)
    assert isinstance(new, bytes)
    assert f"StableHLO_v{version}".encode() in new[:64]
    module = stablehlo.deserialize_portable_artifact(_compat.make_context(), new)
    assert not has_markers(str(module))
    assert str(module).count("dot_general") == str(module_io.parse(given)).count("dot_general") + 4


def test_exported(expected):
    """A jax.export artifact is a portable artifact inside: it comes back and runs."""
    exported = jax.export.export(step)(WS, X)
    new = hlo_remat.apply(exported.mlir_module_serialized)
    close(dataclasses.replace(exported, mlir_module_serialized=new).call(WS, X), expected)


def test_without_regions(expected):
    lowered = plain.lower(WS, X)
    new = hlo_remat.apply(lowered)
    assert "optimization_barrier" not in new.as_text()
    close(new.compile()(WS, X), expected)


# -- what stays as it is -----------------------------------------------------------------------


def test_plain_jit_still_runs_the_plain_program(lowered, expected):
    before = lowered.as_text()
    new = hlo_remat.apply(lowered)
    assert lowered.as_text() == before
    assert step.lower(WS, X).as_text() == before
    assert lowered.compile().as_text().count(" sine(") <= 4
    new_temp = temp_bytes(new.compile())
    close(step(WS, X), expected)
    assert temp_bytes(step.lower(WS, X).compile()) > new_temp
    assert temp_bytes(lowered.compile()) > new_temp


def test_two_applies_do_not_meet(lowered):
    texts = {
        strategy: hlo_remat.apply(lowered, strategy=strategy).as_text()
        for strategy in ("optimization-barrier", "call", "none")
    }
    assert texts["optimization-barrier"].count("optimization_barrier") == 4
    assert "optimization_barrier" not in texts["call"]
    assert texts["call"].count("call @hlo_remat.fenced") == 4
    assert "hlo_remat" not in texts["none"]
    assert "optimization_barrier" not in texts["none"]
    again = hlo_remat.apply(lowered, strategy="optimization-barrier").as_text()
    assert again == texts["optimization-barrier"]


def test_apply_twice(lowered, expected):
    once = hlo_remat.apply(lowered)
    twice = hlo_remat.apply(once)
    assert twice.as_text() == once.as_text()
    close(twice.compile()(WS, X), expected)
    options = twice._lowering._compiler_options_kvs
    assert options == once._lowering._compiler_options_kvs


def test_donation():
    @functools.partial(jax.jit, donate_argnums=(0,))
    def train(ws, x):
        grads = jax.grad(loss)(ws, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, ws, grads)

    given = train.lower(WS, X)
    new = hlo_remat.apply(given)
    aliased = given.as_text().count("tf.aliasing_output")
    assert new.as_text().count("tf.aliasing_output") == aliased == 4
    expected = jax.tree.map(np.asarray, given.compile()(jax.tree.map(jnp.array, WS), X))
    ws, x = jax.tree.map(jnp.array, WS), jnp.array(X)
    close(new.compile()(ws, x), expected)
    assert all(w.is_deleted() for w in ws)
    assert not x.is_deleted()


def test_static_arguments_and_trees():
    @functools.partial(jax.jit, static_argnums=(1,), static_argnames=("scale",))
    def run(tree, power, *, scale, key):
        f = hlo_remat.checkpoint(lambda x: scale * jnp.sin(jnp.sin(x)) ** power)
        grad = jax.grad(lambda x: f(x).sum())(tree["x"])
        return {"grad": grad, "none": None, "rest": (tree["i"] + 1, key)}

    tree = {"x": X, "i": np.arange(3), "unused": X}
    new = hlo_remat.apply(run.lower(tree, 3, scale=2.0, key=jax.random.key(1)))
    actual = new.compile()(tree, key=jax.random.key(1))
    expected = run(tree, 3, scale=2.0, key=jax.random.key(1))
    assert jax.random.key_data(actual["rest"][1]).tolist() == [0, 1]
    actual["rest"], expected["rest"] = actual["rest"][:1], expected["rest"][:1]
    close(actual, expected)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, hlo_remat
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
split, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

def loss(w, x, mark):
    for _ in range(3):
        x = mark(lambda w, x: jnp.sin(jnp.tanh(x @ w)))(w, x)
    return jnp.sum(x ** 2)

def lower(mark):
    f = jax.value_and_grad(lambda w, x: loss(w, x, mark), argnums=(0, 1))
    shardings = dict(in_shardings=(whole, split), out_shardings=(whole, (whole, split)))
    return jax.jit(f, **shardings).lower(*args)

args = [np.linspace(-1, 1, n * 64, dtype=np.float32).reshape(n, 64) for n in (64, 512)]
plain, marked = lower(lambda f: f).compile(), lower(hlo_remat.checkpoint)
expected = plain(*args)
all_reduces = plain.as_text().count(" all-reduce(")
for strategy in ("auto", "optimization-barrier", "call"):
    compiled = hlo_remat.apply(marked, strategy=strategy).compile()
    actual = compiled(*args)
    assert compiled.input_shardings == plain.input_shardings
    assert [x.sharding for x in jax.tree.leaves(actual)] == [whole, whole, split]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), actual, expected)
    assert compiled.as_text().count(" all-reduce(") == all_reduces, strategy
text = hlo_remat.apply(marked).as_text()
assert "sdy.mesh" in text and "sdy.sharding" in text
print("ran on", jax.device_count())
"""


def test_shardings(run_python):
    flags = "--xla_force_host_platform_device_count=4"
    assert run_python(SHARDED, XLA_FLAGS=flags) == "ran on 4\n"
