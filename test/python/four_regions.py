# SPDX-License-Identifier: Apache-2.0
"""A training step with four regions, and helpers to compare what becomes of it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import hlo_remat

X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
WS = [X * 0.1 * (i + 1) for i in range(4)]
# Every stage but the fence, so XLA sees the program as it was.
UNFENCED = "builtin.module(hlo-remat-inline,hlo-remat-partition,hlo-remat-strip)"


def layer(w, x):
    return x + jnp.sin(jnp.tanh(x @ w))


def loss(ws, x, mark=hlo_remat.checkpoint):
    for w in ws:
        x = mark(layer)(w, x)
    return jnp.sum(x**2)


step = jax.jit(jax.value_and_grad(loss))
plain = jax.jit(jax.value_and_grad(functools.partial(loss, mark=lambda f: f)))


def close(actual, expected):
    # Comparing trees also compares their structures.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), actual, expected
    )


def has_markers(text):
    return '"hlo_remat.' in text


def temp_bytes(compiled):
    return compiled.memory_analysis().temp_size_in_bytes
