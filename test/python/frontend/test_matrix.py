# SPDX-License-Identifier: Apache-2.0
"""Programs by transformations: markers alone change nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import NO_FORWARD_MODE, PROGRAMS, other_dtypes

import hlo_remat

X = np.array([0.3, -0.7, 1.1], np.float32)
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
BATCH = np.stack([X, X * 2, -X])


def scalar(f):
    return lambda x: jnp.sum(f(x) * jnp.array([1.0, -2.0, 3.0]))


def vjp_twice(f):
    def run(x):
        y, pull = jax.vjp(f, x)
        return y, pull(y), pull(jnp.ones(3))

    return run


def linearize_twice(f):
    def run(x):
        y, push = jax.linearize(f, x)
        return y, push(x), push(jnp.ones(3))

    return run


def transposed_jvp(f):
    """One tangent is known and the other linear."""

    def run(x):
        g = lambda a, b: f(a * jnp.cos(b))  # noqa: E731
        return jax.vjp(lambda t: jax.jvp(g, (x, x), (t, jnp.ones(3)))[1], x)[1](jnp.ones(3))

    return run


REVERSE = {
    "value_and_grad": lambda f: jax.value_and_grad(scalar(f)),
    "vjp_twice": vjp_twice,
    "jacrev": jax.jacrev,
    "grad_of_vmap": lambda f: jax.grad(lambda x: jax.vmap(scalar(f), 1)(x * BATCH.T).sum()),
    "vmap_of_grad": lambda f: lambda x: jax.vmap(jax.grad(scalar(f)), 0, 1)(x * BATCH),
    "vmap_in_axes_none": lambda f: (
        lambda x: jax.vmap(lambda a, b: jax.grad(scalar(f))(a) * b, (None, 0))(x, BATCH)
    ),
}
FORWARD = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.cos(x),)),
    "linearize_twice": linearize_twice,
    "jacfwd": jax.jacfwd,
    "hessian": lambda f: jax.hessian(scalar(f)),
    "reverse_over_reverse": lambda f: jax.jacrev(jax.grad(scalar(f))),
    "transposed_jvp": transposed_jvp,
}


def plain(fun):
    return fun


@pytest.mark.parametrize("transform", [*REVERSE, *FORWARD])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_like_plain_jax(program, transform):
    if program in NO_FORWARD_MODE and transform in FORWARD:
        pytest.skip("plain JAX can't either")
    transformed = {**REVERSE, **FORWARD}[transform]
    marked = jax.jit(transformed(program(hlo_remat.checkpoint))).lower(X)
    assert "hlo_remat." in marked.as_text()
    expected = jax.jit(transformed(program(plain))).lower(X).compile(QUICK)(X)
    # XLA keeps some bf16 values in higher precision; which ones, a marker changes.
    tolerance = 2e-2 if program is other_dtypes else 1e-5
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        marked.compile(QUICK)(X),
        expected,
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_without_jit(program):
    gradient = jax.grad(scalar(program(hlo_remat.checkpoint)))(X)
    expected = jax.grad(scalar(program(plain)))(X)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
