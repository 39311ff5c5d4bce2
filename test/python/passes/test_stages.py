# SPDX-License-Identifier: Apache-2.0
"""After every stage the module computes the same: programs, transformations, fences, policies."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import NO_FORWARD_MODE, PROGRAMS
from stages import check_stages, interpret, stages

import hlo_remat
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.partition import Partition

X = np.array([0.3, -0.7, 1.1], np.float32)
STRATEGIES = ["auto", "optimization-barrier", "call", "case", "while", "none"]
SCOPES = ["operands", "recompute", "backward"]


def scalar(f):
    return lambda x: jnp.sum(f(x) * jnp.array([1.0, -2.0, 3.0]))


TRANSFORMS = {
    "value_and_grad": lambda f: jax.value_and_grad(scalar(f)),
    "vmap_of_grad": lambda f: lambda x: jax.vmap(jax.grad(scalar(f)))(jnp.stack([x, 2 * x])),
    "reverse_over_reverse": lambda f: jax.grad(lambda x: jax.grad(scalar(f))(x).sum()),
    "forward_over_reverse": lambda f: lambda x: jax.jvp(jax.grad(scalar(f)), (x,), (jnp.cos(x),)),
}
TWICE = ("reverse_over_reverse", "forward_over_reverse")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_each_stage_computes_the_same(program, transform):
    if program in NO_FORWARD_MODE and transform in TWICE:
        pytest.skip("plain JAX can't either")
    transformed = TRANSFORMS[transform](program(hlo_remat.checkpoint))
    check_stages(jax.jit(transformed).lower(X).as_text(), [X])


# -- fences and policies -----------------------------------------------------------------------

W = np.linspace(-1.0, 1.0, 2 * 4 * 4, dtype=np.float32).reshape(2, 4, 4)
A = W[1] + 1
cp = hlo_remat.checkpoint_policies
ONLY = cp.save_only_these_names("h")
# Policy -> how many of the forward's dots and sines are run again.
POLICIES = {
    "nothing_saveable": (cp.nothing_saveable, 4, 2),
    "everything_saveable": (cp.everything_saveable, 0, 0),
    "dots_saveable": (cp.dots_saveable, 0, 2),
    "dots_with_no_batch_dims_saveable": (cp.dots_with_no_batch_dims_saveable, 2, 2),
    "save_only_these_names": (ONLY, 4, 0),
    "save_any_names_but_these": (cp.save_any_names_but_these("h"), 2, 2),
    "save_anything_except_these_names": (cp.save_anything_except_these_names("h"), 0, 0),
    "save_from_both_policies": (cp.save_from_both_policies(ONLY, cp.dots_saveable), 0, 0),
    "callable": (lambda prim, *_, **__: prim.name == "sin", 4, 0),
}


def block(w, x):
    """Dots without and with a batch dimension, and two names."""
    h = hlo_remat.checkpoint_name(jnp.sin(x @ w[0]), "h")
    g = hlo_remat.checkpoint_name(jax.vmap(jnp.matmul)(w, jnp.stack([h, h])).sum(0), "g")
    return x + jnp.sin(g * g)


def two_blocks(policy, mark=hlo_remat.checkpoint):
    layer = mark(block, policy=policy)
    return jax.value_and_grad(lambda w, x: jnp.sum(layer(w, layer(w, x)) ** 2), argnums=(0, 1))


@functools.cache
def two_blocks_text(name):
    return jax.jit(two_blocks(POLICIES[name][0])).lower(W, A).as_text()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_fences_and_policies(policy, strategy, scope):
    text = two_blocks_text(policy)
    after = check_stages(text, [W, A], lower=LowerRecompute(strategy=strategy, scope=scope))
    _, dots, sines = POLICIES[policy]
    assert after.count("stablehlo.dot_general") == text.count("stablehlo.dot_general") + dots
    assert after.count("stablehlo.sine") == text.count("stablehlo.sine") + sines


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fences_by_xla(strategy, scope):
    lowered = jax.jit(two_blocks(None)).lower(W, A)
    compiled = hlo_remat.apply(lowered, strategy=strategy, scope=scope).compile()
    expected = jax.jit(two_blocks(None, lambda f, policy: f))(W, A)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), compiled(W, A), expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0, 1e-45])
def test_fences_hold_for_all_data(strategy, value):
    f = hlo_remat.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    text = jax.jit(lambda x, ct: jax.vjp(f, x)[1](ct)).lower(X, X).as_text()
    bad = np.full(3, value, np.float32)
    check_stages(text, [X, bad], lower=LowerRecompute(strategy=strategy))
    check_stages(text, [bad, X], lower=LowerRecompute(strategy=strategy))


DTYPES = ["bfloat16", "float16", "float32", "float64", "complex64", "complex128", "float8_e5m2"]


@pytest.mark.parametrize("strategy", ["case", "while"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fences_of_other_dtypes(dtype, strategy):
    with jax.enable_x64(True):
        x = jnp.linspace(-1, 1, 6).reshape(2, 3).astype(dtype)
        f = hlo_remat.checkpoint(lambda x: x * jnp.cos(x * x).astype(dtype))
        lowered = jax.jit(lambda x, ct: jax.vjp(f, x)[1](ct)).lower(x, x)
        new = hlo_remat.apply(lowered, strategy=strategy)
        op = {"case": "stablehlo.if", "while": "stablehlo.while"}[strategy]
        assert op in new.as_text()
        (actual,), (expected,) = new.compile()(x, x), lowered.compile()(x, x)
        np.testing.assert_allclose(
            np.asarray(actual, np.complex128), np.asarray(expected, np.complex128), rtol=0.02
        )


def test_the_policy_option():
    """A policy for every region instead of the region's own."""
    text = two_blocks_text("nothing_saveable")
    after = check_stages(text, [W, A], partition=Partition(policy="everything_saveable"))
    assert after.count("stablehlo.sine") == text.count("stablehlo.sine")


def test_stages_can_be_rerun():
    """Each pass on the result of the pipeline, and on each stage before its own, changes nothing
    that is computed."""
    text = two_blocks_text("dots_saveable")
    expected = interpret(text, [W, A])
    for _, after in stages(text):
        for a, b in zip(interpret(hlo_remat.apply(after), [W, A]), expected, strict=True):
            np.testing.assert_array_equal(a, b)
