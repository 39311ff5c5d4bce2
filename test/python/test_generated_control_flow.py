# SPDX-License-Identifier: Apache-2.0
"""Generated programs: regions, loops, branches and names in each other, to any depth.

Each is rewritten, compiled by XLA and compared with plain JAX.
"""

from __future__ import annotations

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import hlo_remat

W = np.sin(np.arange(48, dtype=np.float32) * 7).reshape(3, 4, 4) * 0.4
X = np.cos(np.arange(12, dtype=np.float32)).reshape(3, 4)
cp = hlo_remat.checkpoint_policies
POLICIES = {
    "nothing": cp.nothing_saveable,
    "dots": cp.dots_saveable,
    "everything": cp.everything_saveable,
    "sines": lambda prim, *_, **__: prim.name == "sin",
}
STEPS = {
    "dot": lambda x, w: jnp.tanh(x @ w[0]),
    "sine": lambda x, w: jnp.sin(x),
    "named": lambda x, w: hlo_remat.checkpoint_name(jnp.cos(x @ w[1]), "h") * x,
    "square": lambda x, w: 0.3 * x * x,
    "residual": lambda x, w: x + jnp.sin(x @ w[2]),
    "sort": lambda x, w: jnp.sort(x, axis=0),
    "random": lambda x, w: x * jax.random.uniform(jax.random.key(1), x.shape),
    "scalar": lambda x, w: x * jnp.sum(jnp.sin(x)) * 0.1,
}

steps = st.sampled_from(sorted(STEPS))


def nests(inner):
    bodies = st.lists(inner, min_size=1, max_size=3)
    flags = st.booleans()
    return st.one_of(
        st.tuples(st.just("region"), st.sampled_from(sorted(POLICIES)), flags, bodies),
        st.tuples(st.just("scan"), st.integers(1, 3), flags, st.sampled_from([1, 2]), bodies),
        st.tuples(st.just("cond"), st.sampled_from([-9.0, 0.0, 9.0]), bodies, bodies),
    )


programs = st.lists(
    st.recursive(steps, nests, max_leaves=6).filter(lambda p: not isinstance(p, str)),
    min_size=1,
    max_size=3,
)


def run(program, x, w, mark):
    for node in program:
        x = apply_node(node, x, w, mark)
    return x


def apply_node(node, x, w, mark):
    if isinstance(node, str):
        return STEPS[node](x, w)
    kind, *options, body = node
    if kind == "region":
        policy, prevent_cse = options
        inner = functools.partial(run, body, mark=mark)
        if mark is None:
            return inner(x, w)
        return mark(inner, policy=POLICIES[policy], prevent_cse=prevent_cse)(x, w)
    if kind == "scan":
        length, reverse, unroll = options

        def step(c, a):
            y = run(body, c * a, w, mark)
            return y, jnp.sin(y[0])

        scales = jnp.linspace(0.5, 1, length)
        y, ys = lax.scan(step, x, scales, reverse=reverse, unroll=min(unroll, length))
        return y + ys.sum(0)
    limit, other = options
    branches = (functools.partial(run, b, w=w, mark=mark) for b in (body, other))
    return lax.cond(x[0, 0] > limit, *branches, x)


def gradient(program, mark):
    def loss(w, x):
        return jnp.sum(jnp.sin(run(program, x, w, mark)))

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(programs)
def test_generated(program):
    lowered = gradient(program, hlo_remat.checkpoint).lower(W, X)
    actual = hlo_remat.apply(lowered).compile()(W, X)
    expected = gradient(program, None)(W, X)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), actual, expected
    )
