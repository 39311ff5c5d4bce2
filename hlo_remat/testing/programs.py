# SPDX-License-Identifier: Apache-2.0
"""Random programs with gradients, as data: their `repr` is all there is to know of one.

A program's steps take an array of shape (rows, columns) and return one like it, bounded, so that
gradients can be compared. A step is a name, or a tuple of a kind, options and bodies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import hlo_remat

Mark = Callable[..., Any]
Step = Any
cp = hlo_remat.checkpoint_policies

POLICIES: dict[str, Any] = {
    "none": None,
    "nothing": cp.nothing_saveable,
    "everything": cp.everything_saveable,
    "dots": cp.dots_saveable,
    "no batch": cp.dots_with_no_batch_dims_saveable,
    "only h": cp.save_only_these_names("h"),
    "any but h": cp.save_any_names_but_these("h"),
    "except h": cp.save_anything_except_these_names("h"),
    "dots and h": cp.save_from_both_policies(cp.dots_saveable, cp.save_only_these_names("h")),
    "callable": lambda prim, *_, **__: prim.name in ("sin", "tanh", "exp"),
}
DTYPES = ("float32", "bfloat16", "float16", "float64")
TRANSFORMS = ("gradient", "gradient of gradient", "vmap of gradient", "forward over reverse")


class Inputs(NamedTuple):
    """What steps take apart from the array: weights, and what has no gradient."""

    weights: jax.Array  # (3, columns, columns)
    scale: jax.Array  # (columns,)
    rows: jax.Array  # (rows,) int32
    number: jax.Array  # () int32
    key: jax.Array


class Program(NamedTuple):
    """`steps` over arrays of `shape` and `dtype`; `transform` says which derivative of it."""

    shape: tuple[int, int]
    dtype: str
    transform: str
    steps: tuple[Step, ...]

    def arguments(self) -> tuple[Any, ...]:
        """What is differentiated, a pytree, and what is not."""
        rows, columns = self.shape
        rng = np.random.default_rng(rows * 8 + columns)
        x = rng.normal(size=self.shape).astype(self.dtype)
        weights = (rng.normal(size=(3, columns, columns)) / (columns or 1) ** 0.5).astype(
            self.dtype
        )
        scale = rng.normal(size=columns).astype(self.dtype)
        indices = rng.integers(0, max(rows, 1), rows).astype(np.int32)
        return {"x": x, "w": weights, "s": scale}, indices, np.int32(1), jax.random.key(7)

    def function(self, mark: Mark | None) -> Callable[..., Any]:
        """The derivative, with regions by `mark`, or without any."""

        def loss(params: Any, rows: Any, number: Any, key: Any) -> Any:
            inputs = Inputs(params["w"], params["s"], rows, number, key)
            y = run(self.steps, params["x"], inputs, mark)
            return jnp.sum(jnp.sin(y.astype(jnp.promote_types(y.dtype, jnp.float32)))), y

        gradient = jax.value_and_grad(loss, has_aux=True)
        if self.transform == "gradient of gradient":

            def steepness(params: Any, *rest: Any) -> Any:
                _, first = gradient(params, *rest)
                return sum(jnp.sum(jnp.sin(g.astype(jnp.float32))) for g in jax.tree.leaves(first))

            return jax.value_and_grad(steepness)
        if self.transform == "vmap of gradient":

            def several(params: Any, *rest: Any) -> Any:
                two = jax.tree.map(lambda p: jnp.stack([p, p * 0.5]), params)
                return jax.vmap(gradient, (0, *[None] * len(rest)))(two, *rest)

            return several
        if self.transform == "forward over reverse":
            return lambda params, *rest: jax.jvp(
                lambda p: gradient(p, *rest), (params,), (jax.tree.map(jnp.ones_like, params),)
            )
        return gradient


def run(steps: tuple[Step, ...], x: Any, inputs: Inputs, mark: Mark | None) -> Any:
    for step in steps:
        if isinstance(step, str):
            y = SIMPLE[step](x, inputs)
        else:
            y = NESTED[step[0]](x, inputs, mark, *step[1:])
        x = y.astype(x.dtype)
    return x


# -- simple steps ------------------------------------------------------------------------------


def _convolution(x: Any, inputs: Inputs) -> Any:
    dimensions = ("NWC", "WIO", "NWC")
    y = lax.conv_general_dilated(
        x[None], inputs.weights, (1,), "SAME", dimension_numbers=dimensions
    )
    return jnp.tanh(y[0])


def _attention(x: Any, inputs: Inputs) -> Any:
    q, k, v = (x @ w for w in inputs.weights)
    return jax.nn.softmax(q @ k.T, axis=-1) @ jnp.tanh(v)


def _dropout(x: Any, inputs: Inputs) -> Any:
    return jnp.where(jax.random.bernoulli(inputs.key, 0.7, x.shape), x / 0.7, 0)


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return jnp.sin(x)


_clipped.defvjp(
    lambda x: (_clipped(x), jnp.cos(x)), lambda residual, g: (jnp.clip(g * residual, -0.5, 0.5),)
)


@jax.custom_jvp
def _with_rule(x: Any) -> Any:
    return jnp.tanh(x)


@_with_rule.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    y = _with_rule(*primals)
    return y, (1 - y * y) * tangents[0]


def _complex(x: Any, inputs: Inputs) -> Any:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    z = lax.complex(wide, jnp.sin(wide))
    return (z * jnp.conj(z) / (1 + jnp.abs(z) ** 2)).real + (z * z).imag * 0.1


def _as_type(dtype: str) -> Callable[[Any, Inputs], Any]:
    return lambda x, inputs: jnp.sin(x.astype(dtype) * jnp.asarray(0.5, dtype))


def _largest(x: Any, inputs: Inputs) -> Any:
    values, _ = lax.top_k(x, min(2, x.shape[1]))
    return x - values.sum(-1, keepdims=True) * jnp.asarray(0.1, x.dtype)


SIMPLE: dict[str, Callable[[Any, Inputs], Any]] = {
    "dense": lambda x, i: jnp.tanh(x @ i.weights[0]),
    "relu": lambda x, i: jax.nn.relu(x @ i.weights[1] + i.scale) * 0.5,
    "residual": lambda x, i: x + jnp.sin(x @ i.weights[2]),
    "convolution": _convolution,
    "attention": _attention,
    "layer norm": lambda x, i: (
        (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1) * i.scale
    ),
    "rms norm": lambda x, i: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1),
    "batch norm": lambda x, i: (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1),
    "sine": lambda x, i: jnp.sin(x),
    "square": lambda x, i: 0.3 * jnp.sin(x) ** 2,
    "double": lambda x, i: 2 * x,
    "stop": lambda x, i: x + lax.stop_gradient(jnp.cos(x)),
    "name": lambda x, i: hlo_remat.checkpoint_name(jnp.cos(x), "h"),
    "other name": lambda x, i: hlo_remat.checkpoint_name(jnp.sin(x) @ i.weights[1], "g") * x,
    "gather": lambda x, i: jnp.sin(x[i.rows]),
    "scatter": lambda x, i: jnp.sin(jnp.zeros_like(x).at[i.rows].add(x)),
    "maximum by scatter": lambda x, i: jnp.zeros_like(x).at[i.rows].max(x),
    "one row": lambda x, i: x.at[i.number].set(jnp.cos(x[i.number]), mode="drop"),
    "integers": lambda x, i: x * (i.rows[:, None] % 3).astype(x.dtype),
    "sum": lambda x, i: x * jnp.sum(jnp.sin(x)) * 0.1,
    "log sum exp": lambda x, i: x - jax.nn.logsumexp(x, axis=-1, keepdims=True),
    "cumulative sum": lambda x, i: jnp.sin(jnp.cumsum(x, axis=0)),
    "sort": lambda x, i: jnp.sort(x, axis=0),
    "largest": _largest,
    "maximum": lambda x, i: x - jnp.max(x, axis=1, keepdims=True, initial=-1),
    "dropout": _dropout,
    "own key": lambda x, i: x * jax.random.uniform(jax.random.key(1), x.shape, x.dtype),
    "custom vjp": lambda x, i: _clipped(x),
    "custom jvp": lambda x, i: _with_rule(x),
    "complex": _complex,
    "bfloat16": _as_type("bfloat16"),
    "float16": _as_type("float16"),
    "float32": _as_type("float32"),
    "empty": lambda x, i: x + jnp.sum(jnp.sin(x[:0])) + jnp.concatenate([x[:0], jnp.cos(x)]),
    "scalar": lambda x, i: x * jnp.sin(jnp.sum(i.scale)),
    "transpose": lambda x, i: jnp.sin(jnp.reshape(x.T, x.shape)),
    "constant": lambda x, i: x + jnp.asarray(np.sin(np.arange(x.size)).reshape(x.shape), x.dtype),
    "jitted": jax.jit(lambda x, i: jnp.cos(jnp.sin(x))),
    "vmapped": lambda x, i: jax.vmap(lambda row: jnp.tanh(row * i.scale))(x),
    "einsum": lambda x, i: jnp.einsum("rc,kcd->rd", jnp.sin(x), i.weights) * 0.3,
}
# What a step in a shard_map may be: rows of one device know nothing of the others.
ROWWISE = ("dense", "relu", "residual", "layer norm", "sine", "square", "name", "custom vjp", "sum")


# -- steps with bodies -------------------------------------------------------------------------


def _region(
    x: Any,
    inputs: Inputs,
    mark: Mark | None,
    policy: str,
    prevent_cse: bool,
    takes_all: bool,
    body: Any,
) -> Any:
    def f(x: Any, inputs: Inputs) -> Any:
        # Some name must be there for the policies that speak of it.
        y = run(body, x, inputs, mark)
        return hlo_remat.checkpoint_name(jnp.sin(y), "h") if "h" in policy else y

    if mark is None:
        return f(x, inputs)
    marked = functools.partial(mark, policy=POLICIES[policy], prevent_cse=prevent_cse)
    return marked(f)(x, inputs) if takes_all else marked(lambda x: f(x, inputs))(x)


def _scan(
    x: Any, inputs: Inputs, mark: Mark | None, length: int, reverse: bool, unroll: int, body: Any
) -> Any:
    def step(carry: Any, scale: Any) -> Any:
        y, total, number = carry
        z = run(body, y * scale, inputs._replace(number=number), mark)
        return (z, total + jnp.sum(z) * jnp.asarray(0.1, z.dtype), number + 1), jnp.sin(z[:1])

    scales = jnp.linspace(0.5, 1, length).astype(x.dtype)
    start = x, jnp.zeros((), x.dtype), inputs.number
    (y, total, _), ys = lax.scan(step, start, scales, reverse=reverse, unroll=min(unroll, length))
    return y + jnp.sin(total) + ys.sum(0)


def _for(x: Any, inputs: Inputs, mark: Mark | None, length: int, body: Any) -> Any:
    def step(k: Any, y: Any) -> Any:
        return run(body, y, inputs._replace(number=jnp.int32(k)), mark)

    return lax.fori_loop(1, 1 + length, step, x)


def _cond(x: Any, inputs: Inputs, mark: Mark | None, by: str, then: Any, other: Any) -> Any:
    predicate = {
        "data": jnp.sum(x) > 0,
        "true": jnp.sum(jnp.abs(x)) > -1,
        "integer": inputs.number % 2 == 0,
    }[by]
    return lax.cond(predicate, *(lambda y, b=b: run(b, y, inputs, mark) for b in (then, other)), x)


def _switch(x: Any, inputs: Inputs, mark: Mark | None, *bodies: Any) -> Any:
    branches = [lambda y, b=b: run(b, y, inputs, mark) for b in bodies]
    return lax.switch(inputs.number, branches, x)


def _jit(x: Any, inputs: Inputs, mark: Mark | None, body: Any) -> Any:
    return jax.jit(lambda x, inputs: run(body, x, inputs, mark))(x, inputs)


def _vmap(x: Any, inputs: Inputs, mark: Mark | None, body: Any) -> Any:
    return jax.vmap(lambda y: run(body, y, inputs, mark))(jnp.stack([x, x * 0.5])).sum(0)


def _shard_map(x: Any, inputs: Inputs, mark: Mark | None, body: Any) -> Any:
    rows = PartitionSpec("d")
    sharded = jax.shard_map(
        lambda x, weights, scale: run(body, x, inputs._replace(weights=weights, scale=scale), mark),
        mesh=Mesh(np.array(jax.devices()[:4]), ("d",)),
        in_specs=(rows, PartitionSpec(), PartitionSpec()),
        out_specs=rows,
        check_vma=False,
    )
    return sharded(x, inputs.weights, inputs.scale)


NESTED: dict[str, Callable[..., Any]] = {
    "region": _region,
    "scan": _scan,
    "for": _for,
    "cond": _cond,
    "switch": _switch,
    "jit": _jit,
    "vmap": _vmap,
    "shard_map": _shard_map,
}


# -- strategies --------------------------------------------------------------------------------


def bodies(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[tuple[Step, ...]]:
    return st.lists(inner, min_size=1, max_size=4).map(tuple)


def region(body: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    flags = st.booleans()
    return st.tuples(st.just("region"), st.sampled_from(sorted(POLICIES)), flags, flags, body)


def nested(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    body = bodies(inner)
    return st.one_of(
        region(body),
        st.tuples(st.just("scan"), st.integers(1, 4), st.booleans(), st.integers(1, 4), body),
        st.tuples(st.just("for"), st.integers(0, 3), body),
        st.tuples(st.just("cond"), st.sampled_from(["data", "true", "integer"]), body, body),
        st.tuples(st.just("switch"), body, body, body),
        st.tuples(st.just("jit"), body),
        st.tuples(st.just("vmap"), body),
    )


def programs(*, x64: bool = False, sharded: bool = False) -> st.SearchStrategy[Program]:
    """Programs with at least one region. f64 needs JAX's x64 mode, shard_map four devices."""
    simple = st.sampled_from(sorted(SIMPLE))
    step = st.recursive(simple, nested, max_leaves=8)
    wrapped = step
    shapes = st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2, 3, 4, 0]))
    if sharded:
        rowwise = bodies(st.sampled_from(ROWWISE))
        local = bodies(st.one_of(st.sampled_from(ROWWISE), region(rowwise)))
        in_devices = st.tuples(st.just("shard_map"), local)
        wrapped = st.one_of(in_devices, region(bodies(in_devices)), step)
        shapes = st.tuples(st.just(4), st.sampled_from([1, 3]))
    return st.builds(
        Program,
        shapes,
        st.sampled_from(DTYPES if x64 else DTYPES[:3]),
        st.sampled_from([TRANSFORMS[0], *TRANSFORMS]),
        st.lists(wrapped, min_size=1, max_size=4).map(tuple),
    ).filter(_is_wanted)


def _is_wanted(program: Program) -> bool:
    """Whether a program has a region, and JAX can differentiate it as it says."""
    text = repr(program.steps)
    is_forward = program.transform == "forward over reverse"
    return "region" in text and not (is_forward and "custom vjp" in text)
