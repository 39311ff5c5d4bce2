# SPDX-License-Identifier: Apache-2.0
"""Programs with regions for the matrix of transformations.

Each takes the decorator that marks a region and returns a function from 3 floats to 3 floats.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo_remat

Mark = Callable[..., Any]
WEIGHTS = np.linspace(-1.0, 1.0, 9, dtype=np.float32).reshape(3, 3)


@jax.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def _cube_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3 * x**2 * t


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


clipped.defvjp(lambda x: (clipped(x), jnp.cos(x)), lambda c, g: (jnp.clip(g * c, -0.5, 0.5),))


def dot(mark: Mark):
    layer = mark(lambda w, x: jnp.tanh(w @ x))
    return lambda x: layer(WEIGHTS, layer(WEIGHTS, x))


def elementwise_and_names(mark: Mark):
    return mark(lambda x: jnp.sin(hlo_remat.checkpoint_name(jnp.exp(jnp.sin(x)), "h")))


def closed_over_values(mark: Mark):
    return lambda x: mark(lambda y: jnp.sin(y * x) + WEIGHTS @ y)(jnp.cos(x))


def nested(mark: Mark):
    inner = mark(lambda x: jnp.sin(jnp.sin(x)))
    return mark(lambda x: jnp.cos(inner(x) * inner(jnp.exp(x))))


def pytrees_and_keywords(mark: Mark):
    @mark
    def region(tree, none, *, scale, unused):
        return {"out": [tree["a"] * jnp.sin(scale)], "none": none, "empty": ()}

    return lambda x: region({"a": x}, None, scale=x + 1, unused=x)["out"][0]


def integers(mark: Mark):
    @mark
    def region(x, i, flag):
        return jnp.where(flag, x[i], jnp.sin(x)), i + 1, flag

    def run(x):
        y, i, flag = region(x, jnp.array([2, 1, 0]), jnp.array([True, False, True]))
        return region(y * x, i % 3, flag)[0]

    return run


def odd_outputs(mark: Mark):
    """An input, a constant, and the same value twice."""

    def region(x):
        y = jnp.sin(x)
        return x, jnp.ones(3), y, y, 2.0

    def run(x):
        a, b, c, d, e = mark(region)(x)
        return a * b + jnp.cos(c) * d + e

    return run


def random_keys(mark: Mark):
    def region(key, x):
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), jnp.sin(x), 0.0)

    def run(x):
        typed, raw = jax.random.key(0), jax.random.PRNGKey(1)
        return mark(region)(raw, mark(region)(typed, x) + x)

    return run


def other_dtypes(mark: Mark):
    @mark
    def region(half, z):
        return jnp.sin(half) * half, jnp.exp(z)

    def run(x):
        half, z = region(x.astype(jnp.bfloat16), x + 1j * x)
        return half.astype(jnp.float32) + z.real * z.imag

    return run


def jit_and_custom_jvp(mark: Mark):
    region = mark(jax.jit(lambda x: cube(jnp.sin(x)) + jax.nn.silu(x)))
    return jax.jit(lambda x: region(region(x)))


def custom_vjp(mark: Mark):
    return lambda x: mark(lambda y: clipped(clipped(y) * y))(x)


def scan_of_regions(mark: Mark):
    body = mark(lambda c, w: (jnp.sin(w @ c), c.sum()))

    def run(x):
        c, sums = jax.lax.scan(body, x, np.stack([WEIGHTS, 2 * WEIGHTS]))
        return c * sums.sum()

    return run


def region_of_scan(mark: Mark):
    def region(x):
        return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * (i + 1), x)

    return mark(region)


def branches(mark: Mark):
    side = mark(lambda x: jnp.sin(jnp.cos(x)))
    return mark(lambda x: jax.lax.cond(x[0] > 0, side, lambda x: x * x, x))


def inside_jax_checkpoint(mark: Mark):
    region = mark(lambda x: jnp.sin(jnp.sin(x)))
    return jax.checkpoint(lambda x: region(jnp.cos(region(x))))


def around_jax_checkpoint(mark: Mark):
    inner = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    return mark(lambda x: inner(jnp.cos(inner(x))))


def partial_and_batched_inside(mark: Mark):
    region = mark(
        functools.partial(lambda w, x: jnp.sin(jax.vmap(jnp.dot, (0, None))(w, x)), WEIGHTS)
    )
    return lambda x: region(x) + jax.vmap(mark(jnp.sin))(x)


PROGRAMS = [
    dot,
    elementwise_and_names,
    closed_over_values,
    nested,
    pytrees_and_keywords,
    integers,
    odd_outputs,
    random_keys,
    other_dtypes,
    jit_and_custom_jvp,
    custom_vjp,
    scan_of_regions,
    region_of_scan,
    branches,
    inside_jax_checkpoint,
    around_jax_checkpoint,
    partial_and_batched_inside,
]
NO_FORWARD_MODE = [custom_vjp]  # as in plain JAX
