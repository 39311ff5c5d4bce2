# SPDX-License-Identifier: Apache-2.0
"""Generated programs of nested regions, names and policies: gradients as in plain JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from stages import check_stages, interpret

import hlo_remat
from hlo_remat.passes.lower_recompute import LowerRecompute

cp = hlo_remat.checkpoint_policies
SIZE = 3
ARGUMENTS = [
    np.cos(np.arange(SIZE * SIZE, dtype=np.float32) * k).reshape(SIZE, SIZE) for k in (1, 2)
]
UNARY = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "square": lambda x: jnp.tanh(x) ** 2,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "transpose": jnp.transpose,
    "double": lambda x: 2 * x,
    "constant": lambda x: jnp.eye(SIZE) + 0 * x[0, 0],
    "stop": jax.lax.stop_gradient,
    "jitted": jax.jit(lambda x: jnp.cos(jnp.sin(x))),
}
BINARY = {
    "add": jnp.add,
    "multiply": lambda x, y: jnp.sin(x) * y,
    "dot": lambda x, y: jnp.tanh(x @ y),
    "batched": lambda x, y: jax.vmap(jnp.dot)(jnp.sin(x), y)[:, None] + x,
    "where": lambda x, y: jnp.where(x > 0, x, y),
}
POLICIES = {
    "default": None,
    "everything": cp.everything_saveable,
    "dots": cp.dots_saveable,
    "no_batch": cp.dots_with_no_batch_dims_saveable,
    "only_h": cp.save_only_these_names("h"),
    "any_but_h": cp.save_any_names_but_these("h"),
    "except_h": cp.save_anything_except_these_names("h"),
    "dots_and_h": cp.save_from_both_policies(cp.dots_saveable, cp.save_only_these_names("h")),
    "callable": lambda prim, *_, **__: prim.name in ("sin", "tanh"),
}
TRANSFORMS = {
    "value_and_grad": lambda f: jax.value_and_grad(f, argnums=(0, 1)),
    "vmap_of_grad": lambda f: jax.vmap(
        jax.grad(lambda x, y: f(jnp.stack([x, y, x]), jnp.diag(y)), argnums=(0, 1)), (0, 1)
    ),
    "grad_of_vmap": lambda f: jax.grad(
        lambda x, y: jax.vmap(f, (None, 0))(x, jnp.stack([y, -y])).sum(), argnums=(0, 1)
    ),
    "grad_of_grad": lambda f: jax.grad(lambda x, y: jax.grad(f)(x, y).sum(), argnums=(0, 1)),
}


class Op(NamedTuple):
    """`kind` is a key of UNARY or BINARY, or "name", or "region"; `reads` are positions, counted
    from the last value."""

    kind: str
    reads: tuple[int, ...]
    detail: Any


class Body(NamedTuple):
    """Of a region: its policy, its ops, and whether it takes what it reads as arguments."""

    policy: str
    ops: tuple[Op, ...]
    closes_over: bool


positions = st.integers(0, 4)
simple_ops = st.one_of(
    st.builds(Op, st.sampled_from(sorted(UNARY)), st.tuples(positions), st.none()),
    st.builds(Op, st.sampled_from(sorted(BINARY)), st.tuples(positions, positions), st.none()),
    st.builds(Op, st.just("name"), st.tuples(positions), st.sampled_from("hg")),
)


def regions_of(ops):
    bodies = st.builds(
        Body,
        st.sampled_from(sorted(POLICIES)),
        st.lists(ops, min_size=2, max_size=6).map(tuple),
        st.booleans(),
    )
    reads = st.lists(positions, min_size=1, max_size=3).map(tuple)
    return st.builds(Op, st.just("region"), reads, bodies)


inner_ops = st.one_of(simple_ops, regions_of(simple_ops))
programs = st.builds(
    lambda before, region, after: (*before, region, *after),
    st.lists(simple_ops, max_size=3),
    regions_of(inner_ops),
    st.lists(st.one_of(simple_ops, regions_of(inner_ops)), max_size=3),
)


def run(ops, values, mark):
    """Appends the results of `ops` to `values`."""
    for op in ops:
        read = [values[-1 - i % len(values)] for i in op.reads]
        if op.kind == "region":
            values += region(op.detail, read, mark)
        elif op.kind == "name":
            values.append(hlo_remat.checkpoint_name(read[0], op.detail))
        else:
            values.append({**UNARY, **BINARY}[op.kind](*read))
    return values


def region(body, read, mark):
    def f(*arguments):
        inside = [*(read if body.closes_over else []), *arguments]
        outs = run(body.ops, inside, mark)[-2:]
        # Some name must be there for the policies that speak of it.
        return [outs[0], hlo_remat.checkpoint_name(outs[-1], "h")]

    return mark(f, policy=POLICIES[body.policy])(*(read[:1] if body.closes_over else read))


def loss(ops, mark):
    return lambda x, y: sum(jnp.sum(jnp.sin(v)) for v in run(ops, [x, y], mark))


def unmarked(f, policy):
    return f


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
    programs,
    st.sampled_from(sorted(TRANSFORMS)),
    st.sampled_from(["auto", "optimization-barrier", "call", "case", "while"]),
    st.sampled_from(["operands", "recompute", "backward"]),
)
def test_generated(ops, transform, strategy, scope):
    def text(mark):
        return (
            jax.jit(TRANSFORMS[transform](loss(ops, mark)), keep_unused=True)
            .lower(*ARGUMENTS)
            .as_text()
        )

    marked = text(hlo_remat.checkpoint)
    lower = LowerRecompute(strategy=strategy, scope=scope)
    after = check_stages(marked, ARGUMENTS, lower=lower)
    expected = interpret(text(unmarked), ARGUMENTS)
    for a, b in zip(interpret(after, ARGUMENTS), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
