# SPDX-License-Identifier: Apache-2.0
"""Programs that could mislead the passes about which trip of which loop a value is of."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_remat

cp = hlo_remat.checkpoint_policies
X = np.float32([0.3, -0.7, 1.1, 2.0])


def check(make, *args):
    lowered = jax.jit(jax.grad(make(hlo_remat.checkpoint, hlo_remat.checkpoint_name))).lower(*args)
    plain = jax.jit(jax.grad(make(lambda f, **_: f, lambda x, name: x)))
    actual = hlo_remat.apply(lowered).compile()(*args)
    np.testing.assert_allclose(actual, plain(*args), rtol=1e-4, atol=1e-5)


def step(name, c, stack, row):
    h = name(jnp.sin(c), "h")
    return 0.9 * jnp.cos(h * 0.3 + c), lax.dynamic_update_index_in_dim(stack, h, row, 0)


@pytest.mark.parametrize("row", ["outer", "inner"])
def test_rows_by_the_counter_of_a_loop(row):
    """What a policy saves in a loop is not what a user's stack holds at another row."""

    def make(mark, name):
        def f(x):
            def nest(i, s):
                at = lambda j: i if row == "outer" else j  # noqa: E731
                return lax.fori_loop(0, 3, lambda j, s: step(name, *s, at(j)), s)

            c, stack = lax.fori_loop(0, 3, nest, (x, jnp.zeros((3, 4))))
            return jnp.sin(c * jnp.sum(stack, 0))

        return lambda x: jnp.sum(mark(f, policy=cp.save_only_these_names("h"))(x))

    check(make, X)


@pytest.mark.parametrize("dtypes", [(), (jnp.int8,), (jnp.int8, jnp.int32)])
def test_rows_that_wrap(dtypes):
    """An int8 doesn't count to 200."""

    def make(mark, name):
        def f(x):
            at = lambda j: functools.reduce(lambda j, dtype: j.astype(dtype), dtypes, j)  # noqa: E731
            start = x, jnp.zeros((200, 4))
            c, stack = lax.fori_loop(0, 200, lambda j, s: step(name, *s, at(j)), start)
            return jnp.sin(c * jnp.sum(stack, 0) * 0.01)

        return lambda x: jnp.sum(mark(f, policy=cp.save_only_these_names("h"))(x))

    # Not run: XLA CPU has now and then aborted on this program.
    marked = make(hlo_remat.checkpoint, hlo_remat.checkpoint_name)
    lowered = jax.jit(jax.grad(marked)).lower(X)
    assert hlo_remat.verify(lowered, hlo_remat.apply(lowered))


def test_constants_in_nests():
    """A mask made of constants, which JAX carries through both loops."""

    def make(mark, name):
        def f(w, x):
            mask = jnp.tril(jnp.ones((4, 4)))
            return jnp.sin(jnp.tanh(x @ w * mask) * mask)

        def loss(w, x):
            inner = lambda c, w: (mark(f)(w, c), None)  # noqa: E731
            outer = lambda c, w: (lax.scan(inner, c, w)[0], None)  # noqa: E731
            return jnp.sum(lax.scan(outer, x, w.reshape(2, 3, 4, 4))[0])

        return loss

    check(make, np.full((6, 4, 4), 0.1, np.float32), np.ones((4, 4), np.float32))


@pytest.mark.parametrize("kind", ["nothing_saveable", "everything_saveable"])
def test_regions_in_a_region_that_read_the_step(kind):
    def make(mark, name):
        def step(c, a):
            j, v = a

            def inner(x, s):
                return jnp.cos(jnp.sin(x) + x), s * jnp.sin(j * 1.0) + jnp.sin(x)

            outer = lambda x, s: mark(inner)(jnp.sin(x), s)  # noqa: E731
            return mark(outer, policy=getattr(cp, kind))(c[0] + v, c[1]), None

        def loss(x):
            (x, s), _ = lax.scan(step, (x, x), (jnp.arange(2), jnp.stack([x, x * 0.5])))
            return jnp.sum(jnp.sin(x) * s)

        return loss

    check(make, X)
