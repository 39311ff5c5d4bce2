# SPDX-License-Identifier: Apache-2.0
"""Regions in and around shard_map, on four host devices, beside plain JAX and jax.checkpoint."""

from __future__ import annotations

import pytest

SCRIPT = """
import re, sys, jax, jax.numpy as jnp, numpy as np, hlo_remat
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib import version
from hlo_remat.strategy import compiler_options, parse_version

mesh = Mesh(np.array(jax.devices()), ("d",))
LAYERS, WIDTH, BATCH = 4, 32, 512
W = np.sin(np.arange(LAYERS * 2 * WIDTH * WIDTH, dtype=np.float32)).reshape(LAYERS, 2, WIDTH, WIDTH)
X = np.cos(np.arange(BATCH * WIDTH, dtype=np.float32)).reshape(BATCH, WIDTH)

def smap(f, i, o):
    return jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o)

def layer(w, x):
    return x + jnp.tanh(jax.nn.gelu(x @ w[0]) @ w[1])

def unrolled(mark, f=layer):
    run = mark(f)
    def local(W, x):
        for i in range(LAYERS):
            x = run(W[i], x)
        return lax.psum(jnp.sum(x**2), "d")
    return smap(local, (P(), P("d")), P())

def scanned(mark):
    run = mark(layer)
    def local(W, x):
        x = lax.scan(lambda c, w: (run(w, c), None), x, W)[0]
        return lax.psum(jnp.sum(x**2), "d")
    return smap(local, (P(), P("d")), P())

def around(mark):
    run = mark(lambda w, x: smap(layer, (P(), P("d")), P("d"))(w, x))
    def f(W, x):
        for i in range(LAYERS):
            x = run(W[i], x)
        return jnp.sum(x**2)
    return f

def collective(mark):
    def f(w, x):
        return x + jnp.tanh(lax.psum(jax.nn.gelu(x @ w[0]), "d") @ w[1])
    return unrolled(mark, f)

def scalars(mark):
    def f(w, x):
        return layer(w, x) * jnp.sin(jnp.sum(jnp.sin(x)))
    return unrolled(mark, f)

def jitted(mark):
    run = mark(layer)
    def f(W, x):
        for i in range(LAYERS):
            x = run(W[i], x)
        return jnp.sum(x**2)
    return f

make = globals()[sys.argv[1]]
args = [jax.device_put(v, NamedSharding(mesh, s)) for v, s in ((W * 0.2, P()), (X, P("d")))]
options = compiler_options("cpu", parse_version(version.__version__), True) or None

def lower(mark):
    return jax.jit(jax.grad(make(mark), argnums=(0, 1))).lower(*args)

def temp(compiled):
    return compiled.memory_analysis().temp_size_in_bytes

def counts(compiled):
    text = compiled.as_text()
    collectives = r" (?:all-reduce|all-gather|reduce-scatter)(?:-start)?\\("
    dots = re.findall(r"= \\S+ dot\\(|__ynn|__onednn", text)
    return len(dots), len(re.findall(collectives, text))

plain = lower(lambda f: f).compile()
expected = plain(*args)
for name in ("nothing_saveable", "dots_saveable"):
    policies = (getattr(s, name) for s in (jax.checkpoint_policies, hlo_remat.checkpoint_policies))
    theirs, ours = policies
    reference = lower(lambda f: jax.checkpoint(f, policy=theirs)).compile(options)
    compiled = hlo_remat.apply(lower(lambda f: hlo_remat.checkpoint(f, policy=ours))).compile()
    actual = compiled(*args)
    assert [a.sharding for a in actual] == [a.sharding for a in expected]
    for a, b in zip(actual, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert counts(compiled) == counts(reference), (counts(compiled), counts(reference))
    assert temp(compiled) <= 1.02 * temp(reference), (temp(compiled), temp(reference))
    assert temp(compiled) < temp(plain)
print("ok")
"""


@pytest.mark.parametrize(
    "program", ["unrolled", "scanned", "around", "collective", "scalars", "jitted"]
)
def test_as_jax_checkpoint(run_python, program):
    script = SCRIPT.replace("sys.argv[1]", repr(program))
    flags = "--xla_force_host_platform_device_count=4"
    assert run_python(script, XLA_FLAGS=flags) == "ok\n"


FOUND = """
from hlo_remat.testing.programs import Program
from hlo_remat.testing.properties import check

region = ("region", "callable", False, False, (("shard_map", ("dense",)),))
check(Program((4, 1), "float32", "vmap of gradient", (region,)))
"""


def test_what_is_handed_out_keeps_its_sharding(run_python):
    """Under vmap the devices' parts are not along the first dimension. Found by random programs."""
    run_python(FOUND, XLA_FLAGS="--xla_force_host_platform_device_count=4")
