# SPDX-License-Identifier: Apache-2.0
"""What users of jax.checkpoint have met, as programs, with what they asked for."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_regions import temp_bytes
from jax import lax
from jax.experimental import checkify, io_callback

import hlo_remat

cp = hlo_remat.checkpoint_policies
MIB = 2**20


def unmarked(f, **_):
    return f


def compiled(gradient, *args):
    return hlo_remat.apply(jax.jit(gradient).lower(*args)).compile()


def count(compiled, op):
    return len(re.findall(rf" {op}(?:-start)?\(", compiled.as_text()))


# jax 13999, 2391, 9809, 19822: the recompute is merged away
def test_unrolled_blocks_recompute():
    def gradient(mark):
        def block(w, x):
            h = x
            for i in range(4):
                h = jnp.sin(h @ w[i])
            return x + h

        def loss(ws, x):
            for w in ws:
                x = mark(block)(w, x)
            return jnp.sum(x * x)

        return jax.grad(loss)

    ws, x = [np.full((4, 64, 64), 0.01, np.float32)] * 4, np.ones((512, 64), np.float32)
    plain = jax.jit(gradient(unmarked)).lower(ws, x).compile()
    ours = compiled(gradient(hlo_remat.checkpoint), ws, x)
    # Of each block but the last, which the backward starts with, all dots but the last run again.
    assert ours.cost_analysis()["flops"] > 1.25 * plain.cost_analysis()["flops"]
    assert temp_bytes(ours) < 0.5 * temp_bytes(plain)
    for a, b in zip(ours(ws, x), plain(ws, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


# jax 17982: the mask of a dropout is kept alive
@pytest.mark.parametrize("in_scan", [False, True])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_dropout_costs_no_memory(impl, in_scan):
    def gradient(rate):
        @hlo_remat.checkpoint
        def block(w, x, key):
            h = jnp.tanh(x @ w[0])
            if rate:
                kept = jax.random.bernoulli(key, 1 - rate, h.shape)
                h = jnp.where(kept, h / (1 - rate), 0)
            return x + jnp.tanh(h @ w[1])

        def loss(ws, x, seed):
            keys = jax.random.split(jax.random.key(seed, impl=impl), len(ws))
            if in_scan:
                x, _ = lax.scan(lambda c, a: (block(a[0], c, a[1]), None), x, (ws, keys))
            else:
                for i in range(len(ws)):
                    x = block(ws[i], x, keys[i])
            return jnp.sum(x * x)

        return jax.grad(loss)

    def bytes_per_block(rate):
        few, many = (
            temp_bytes(
                compiled(
                    gradient(rate),
                    jax.ShapeDtypeStruct((n, 2, 64, 64), jnp.float32),
                    jax.ShapeDtypeStruct((1024, 64), jnp.float32),
                    jax.ShapeDtypeStruct((), jnp.int32),
                )
            )
            for n in (4, 10)
        )
        return (many - few) / 6

    assert bytes_per_block(0.1) <= 1.25 * bytes_per_block(0.0)


# maxtext 4990, axlearn 942, jax 16578, 20015: names without effect, and without a word
def named(where, policy):
    def block(w, x):
        h = x @ w[0]
        if where == "used":
            h = hlo_remat.checkpoint_name(h, "mlp_in")
        elif where == "result dropped":
            hlo_remat.checkpoint_name(h, "mlp_in")
        a = jnp.sin(h)
        if where == "after the sine":
            a = hlo_remat.checkpoint_name(a, "mlp_in")
        y = x + a @ w[1]
        return hlo_remat.checkpoint_name(y, "mlp_in") if where == "output" else y

    def loss(ws, x):
        for w in ws:
            x = hlo_remat.checkpoint(block, policy=policy)(w, x)
        return jnp.sum(x * x)

    ws = [jax.ShapeDtypeStruct((2, 64, 64), jnp.float32)] * 4
    return jax.jit(jax.grad(loss)).lower(ws, jax.ShapeDtypeStruct((512, 64), jnp.float32))


def test_a_name_saves_its_value():
    nothing = hlo_remat.apply(named("used", cp.nothing_saveable)).compile()
    saved = hlo_remat.apply(named("used", cp.save_only_these_names("mlp_in"))).compile()
    assert saved.cost_analysis()["flops"] < nothing.cost_analysis()["flops"]
    assert temp_bytes(saved) > temp_bytes(nothing)


def test_a_name_whose_result_is_dropped_is_an_error():
    with pytest.raises(hlo_remat.UnknownNameError, match="to a value that its outputs depend on"):
        named("result dropped", cp.save_only_these_names("mlp_in"))


def test_a_misspelt_name_is_an_error():
    with pytest.raises(
        hlo_remat.UnknownNameError, match=r"mlp-in.*the names there are: \['mlp_in'\]"
    ):
        hlo_remat.apply(named("used", cp.save_only_these_names("mlp-in")))


def test_a_name_that_saves_nothing_is_a_remark(capsys):
    hlo_remat.apply(named("output", cp.save_only_these_names("mlp_in")), remarks=True)
    assert "'mlp_in' in region 'block' is not needed by the backward" in capsys.readouterr().err


def test_a_name_to_be_saved_and_to_be_offloaded_is_an_error():
    with pytest.raises(ValueError, match=r"\['a'\] are in"):
        cp.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["a", "b"],
            offload_src="device",
            offload_dst="pinned_host",
        )


def test_what_is_not_named_runs_again():
    """The backward needs the sine's argument too: one of two dots runs again, not both."""
    by_name = cp.save_only_these_names("mlp_in")
    flops = [
        hlo_remat.apply(named("after the sine", policy)).compile().cost_analysis()["flops"]
        for policy in (cp.everything_saveable, by_name, cp.nothing_saveable)
    ]
    assert flops[0] < flops[1] <= flops[2]


# jax 27748, xla 27322: the buffers of all loops are made when the program starts
def test_checkpointed_scan_blocks():
    blocks, steps, width = 16, 128, 1024

    def gradient(mark):
        def step(c, t):
            return 0.999 * jnp.sin(c) + 1e-3 * jnp.cos(c * t * 1e-3), None

        def loss(c):
            for b in range(blocks):
                ts = jnp.arange(steps, dtype=jnp.float32) + b * steps
                c = mark(lambda c, ts=ts: lax.scan(step, c, ts)[0])(c)
            return jnp.sum(c**2)

        return jax.grad(loss)

    x = np.linspace(0, 1, width, dtype=np.float32)
    plain = jax.jit(gradient(unmarked)).lower(x).compile()
    theirs = jax.jit(gradient(jax.checkpoint)).lower(x).compile()
    ours = compiled(gradient(hlo_remat.checkpoint), x)
    assert temp_bytes(theirs) > 16 * MIB
    assert temp_bytes(ours) < 1.25 * MIB
    np.testing.assert_array_equal(ours(x), plain(x))


# jax 2775, 8239: a cheap branch pays for the residuals of the dear one
@pytest.mark.parametrize("where", ["branches", "cond"])
def test_branches_in_a_scan(where):
    def dear(w, x):
        for _ in range(8):
            x = jnp.sin(x @ w)
        return x

    def cheap(w, x):
        return x * 0.5

    def gradient(mark):
        def loss(p, w, x):
            if where == "branches":
                choose = lambda q, x: lax.cond(q, mark(dear), mark(cheap), w, x)  # noqa: E731
            else:
                choose = mark(lambda q, x: lax.cond(q, dear, cheap, w, x), prevent_cse=False)
            return jnp.sum(lax.scan(lambda x, q: (choose(q, x), None), x, p)[0] ** 2)

        return jax.grad(loss, argnums=1)

    args = (
        np.arange(8) % 2 == 0,
        np.full((64, 64), 0.01, np.float32),
        np.ones((128, 64), np.float32),
    )
    plain = jax.jit(gradient(unmarked)).lower(*args).compile()
    new = hlo_remat.apply(jax.jit(gradient(hlo_remat.checkpoint)).lower(*args))
    ours = new.compile()
    assert temp_bytes(ours) < 0.21 * temp_bytes(plain)
    np.testing.assert_allclose(ours(*args), plain(*args), rtol=1e-4, atol=1e-6)
    # The branch that is cheap in the forward multiplies no matrices anywhere.
    branches = re.findall(
        r'"stablehlo\.(?:case|if)"\(.*?\) \(\{(.*?)\}, \{(.*?)\}\)', new.as_text(), re.S
    )
    assert len(branches) == (2 if where == "branches" else 3)  # the recompute's is apart
    for pair in branches:
        assert sorted("dot_general" in branch for branch in pair) == [False, True]


# jax 5878, 8907, 28738: effects of a region happen twice
@pytest.mark.parametrize("kind", ["debug", "ordered", "io", "pure"])
@pytest.mark.parametrize("transform", [lambda f: f, jax.grad], ids=["forward", "gradient"])
def test_effects_happen_once(kind, transform):
    calls = []

    def called(x):
        calls.append(1)
        return np.float32(x)

    @hlo_remat.checkpoint
    def f(x):
        if kind in ("io", "pure"):
            call = io_callback if kind == "io" else jax.pure_callback
            read = call(called, jax.ShapeDtypeStruct((), jnp.float32), lax.stop_gradient(x))
            return jnp.sin(jnp.sin(x)) * lax.stop_gradient(read)
        jax.debug.callback(called, x, ordered=kind == "ordered")
        return jnp.sin(jnp.sin(x))

    step = hlo_remat.apply(jax.jit(transform(f)).lower(jnp.float32(1))).compile()
    jax.block_until_ready(step(jnp.float32(1)))
    jax.effects_barrier()
    assert len(calls) == 1


@pytest.mark.parametrize("transform", [lambda f: f, jax.grad], ids=["forward", "gradient"])
def test_mutable_arrays(transform):
    def f(x):
        ref = jax.new_ref(jnp.zeros(()))
        ref[...] = jnp.sin(x)
        return jnp.sin(ref[...])

    ours = compiled(transform(hlo_remat.checkpoint(f)), jnp.float32(1))
    np.testing.assert_allclose(ours(jnp.float32(1)), jax.jit(transform(f))(1.0), rtol=1e-6)


def test_checks():
    @hlo_remat.checkpoint
    def f(x):
        checkify.check(x < 10, "too much")
        return jnp.sin(jnp.sin(x))

    step = compiled(checkify.checkify(jax.grad(f)), jnp.float32(1))
    error, gradient = step(jnp.float32(1))
    assert error.get() is None
    np.testing.assert_allclose(gradient, np.cos(np.sin(1)) * np.cos(1), rtol=1e-6)
    assert "too much" in step(jnp.float32(11))[0].get()


# jax 25010, 31278, xla 19163: is a sharded weight gathered again in the backward, and who says so?
GATHERED = """
import re, jax, jax.numpy as jnp, numpy as np, hlo_remat
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
cp = hlo_remat.checkpoint_policies
mesh = Mesh(np.array(jax.devices()), ("d",))
split, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
args = [jax.device_put(np.full((64, 64), 0.01, np.float32), split)] * 4, jax.device_put(
    np.ones((512, 64), np.float32), split)

def gradient(mark):
    def block(w, x):
        w = hlo_remat.checkpoint_name(jax.lax.with_sharding_constraint(w, whole), "gathered")
        return jnp.sin(hlo_remat.checkpoint_name(x @ w, "h"))
    def loss(ws, x):
        for w in ws:
            x = mark(block)(w, x)
        return jnp.sum(x**2)
    return jax.jit(jax.grad(loss))

expected = gradient(lambda f: f).lower(*args).compile()(*args)
for name, policy in (
    ("nothing", cp.nothing_saveable),
    ("gathered", cp.save_only_these_names("gathered")),
    ("all but gathered", cp.save_anything_except_these_names("gathered")),
):
    lowered = gradient(lambda f: hlo_remat.checkpoint(f, policy=policy)).lower(*args)
    compiled = hlo_remat.apply(lowered).compile()
    for a, b in zip(compiled(*args), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    print(name, len(re.findall(r" all-gather(?:-start)?\\(", compiled.as_text())),
          compiled.memory_analysis().temp_size_in_bytes)
"""


def test_gathered_weights(run_python):
    lines = run_python(GATHERED, XLA_FLAGS="--xla_force_host_platform_device_count=4").splitlines()
    gathers = {name: int(n) for name, n, _ in (line.rsplit(" ", 2) for line in lines)}
    assert gathers["gathered"] == 4
    assert gathers["nothing"] > 4
    assert gathers["all but gathered"] > 4
