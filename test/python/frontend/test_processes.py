# SPDX-License-Identifier: Apache-2.0
"""What needs processes of its own: hash seeds, JAX's flags, several devices."""

from __future__ import annotations

import textwrap

import pytest

HEADER = """
import re
import jax, jax.numpy as jnp, numpy as np
from jax.ad_checkpoint import checkpoint_name as jax_name
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import hlo_remat
from hlo_remat import checkpoint, checkpoint_name, checkpoint_policies
x = np.linspace(-1, 1, 8, dtype=np.float32)
"""
TEXT = """
names = {f"name{i}" for i in range(20)}
policies = [
    jax.checkpoint_policies.save_only_these_names(*names),
    checkpoint_policies.save_any_names_but_these(*sorted(names)),
    lambda prim, *_, **__: prim.name == "sin",
]
def f(x):
    for name in sorted(names):
        x = jnp.sin(checkpoint_name(x, name))
    return x
def loss(x):
    for policy in policies:
        x = checkpoint(f, policy=policy)(x)
    return x.sum()
print(jax.jit(jax.grad(loss)).lower(x).as_text(debug_info=True))
"""
REMAT3 = """
policy = checkpoint_policies.save_only_these_names("h")
f = checkpoint(lambda x: jnp.sin(jax_name(jnp.sin(x), "h")), policy=policy)
g = checkpoint(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))
h = jax.checkpoint(lambda x: f(g(x)))
gradient = jax.jit(jax.grad(lambda x: f(g(x)).sum()))
assert gradient.lower(x).as_text().count('"hlo_remat.name"') == 1
expected = jax.grad(lambda x: jnp.sin(jnp.sin(jnp.sin(jnp.sin(x)))).sum())(x)
np.testing.assert_allclose(gradient(x), expected, rtol=1e-5)
np.testing.assert_allclose(jax.jit(jax.grad(lambda x: h(x).sum()))(x), expected, rtol=1e-5)
sine = checkpoint(jnp.sin)
np.testing.assert_allclose(jax.hessian(lambda x: sine(x).sum())(x[:2]),
    -np.diag(np.sin(x[:2])), rtol=1e-4, atol=1e-6)
print(jax.config.jax_remat3)
"""
DEVICES = """
assert len(jax.devices()) == 4
w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
layer = lambda w, x: jnp.tanh(x @ w)
plain = jax.grad(lambda w, x: layer(w, layer(w, x)).sum())
batch = np.stack([x] * 8)
expected = plain(w, batch)
def check(got):
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

# jit with shardings, automatic and explicit
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    region = checkpoint(layer)
    grad = jax.jit(jax.grad(lambda w, x: region(w, region(w, x)).sum()))
    with jax.set_mesh(mesh):
        args = jax.device_put(w, NamedSharding(mesh, P())), jax.device_put(
            batch, NamedSharding(mesh, P("d")))
        assert "hlo_remat.bwd_enter" in grad.lower(*args).as_text()
        check(grad(*args))

# shard_map around regions and within one, with collectives inside
mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
for check_vma in (True, False):
    def mapped(f):
        return jax.shard_map(f, mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d"),
                             check_vma=check_vma)
    region = checkpoint(layer)
    around = mapped(lambda w, x: region(w, region(w, x)))
    within = checkpoint(lambda w, x: mapped(layer)(w, mapped(layer)(w, x)))
    for f in (around, within):
        check(jax.jit(jax.grad(lambda w, x: f(w, x).sum()))(w, batch))

summed = jax.shard_map(checkpoint(lambda x: jnp.sin(jax.lax.psum(x, "d"))), mesh=mesh,
                       in_specs=P("d"), out_specs=P())
np.testing.assert_allclose(jax.jit(jax.grad(lambda x: summed(x).sum()))(x),
    jax.grad(lambda x: jnp.sin(x.reshape(4, 2).sum(0)).sum())(x), rtol=1e-5)

# vmap over a mesh axis
constrain = lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P()))
region = checkpoint(lambda x: jnp.sin(constrain(x)))
np.testing.assert_allclose(jax.jit(jax.vmap(region, spmd_axis_name="d"))(batch), np.sin(batch),
    rtol=1e-5)
print("ok")
"""


def program(body):
    return textwrap.dedent(HEADER) + body


def test_the_text_does_not_depend_on_the_hash_seed(run_python):
    first, second = (run_python(program(TEXT), PYTHONHASHSEED=seed) for seed in "12")
    assert "hlo_remat.bwd_enter" in first
    assert first == second


@pytest.mark.parametrize("remat3", ["0", "1"])
def test_jax_remat3_changes_nothing(run_python, remat3):
    assert run_python(program(REMAT3), JAX_REMAT3=remat3).strip() == str(remat3 == "1")


def test_four_devices(run_python):
    flags = "--xla_force_host_platform_device_count=4"
    assert run_python(program(DEVICES), XLA_FLAGS=flags).strip() == "ok"
