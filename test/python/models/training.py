# SPDX-License-Identifier: Apache-2.0
"""Training steps of real models. Each takes `mark`, applied to a block, and is built twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

Mark = Callable[..., Any]
EPS = 1e-2  # of adam: with a small one its updates are signs, and rounding decides those near zero


@dataclasses.dataclass(frozen=True)
class Training:
    """`step(mark)` maps `arguments` to whatever a step returns: gradients, parameters, state."""

    step: Callable[[Mark], Callable[..., Any]]
    arguments: tuple[Any, ...]


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def trained(loss: Callable[..., Any], optimiser: Any) -> Callable[..., Any]:
    """A step for a loss that also returns some state."""

    def step(params: Any, state: Any, *batch: Any) -> Any:
        (value, extra), grads = jax.value_and_grad(loss, has_aux=True)(params, *batch)
        updates, state = optimiser.update(grads, state, params)
        return value, extra, grads, optax.apply_updates(params, updates), state

    return step


class Mlp(nn.Module):
    """Layer norm, gelu, and dropout, whose key is an argument."""

    width: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm(dtype=self.dtype)(x)
        h = nn.gelu(nn.Dense(4 * self.width, dtype=self.dtype)(h))
        h = nn.Dropout(0.1, deterministic=False)(h)
        return x + nn.Dense(self.width, dtype=self.dtype)(h)


def flax_mlp(dtype: Any = jnp.float32) -> Training:
    layers, width, batch, block = 4, 64, 256, Mlp(64, dtype)
    keys = jax.random.split(jax.random.key(0), layers)
    params = [block.init({"params": k, "dropout": k}, normal(0, 1, width))["params"] for k in keys]
    params = jax.tree.map(lambda p: p.astype(dtype), params)
    optimiser = optax.adam(1e-3, eps=EPS)

    def step(mark):
        layer = mark(lambda p, x, key: block.apply({"params": p}, x, rngs={"dropout": key}))

        def loss(params, x, key):
            for p, k in zip(params, jax.random.split(key, layers), strict=True):
                x = layer(p, x, k)
            return jnp.mean(x.astype(jnp.float32) ** 2), ()

        return trained(loss, optimiser)

    x = normal(1, batch, width).astype(dtype)
    return Training(step, (params, optimiser.init(params), x, jax.random.key(2)))


def flax_mlp_bf16() -> Training:
    return flax_mlp(jnp.bfloat16)


class ConvBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Conv(x.shape[-1], (3, 3), use_bias=False)(x)
        h = nn.relu(nn.BatchNorm(use_running_average=False)(h))
        h = nn.Conv(x.shape[-1], (3, 3), use_bias=False)(h)
        return nn.relu(x + nn.BatchNorm(use_running_average=False)(h))


def flax_conv_batch_norm() -> Training:
    """The running statistics of batch norm leave the region as outputs."""
    blocks, shape, block = 4, (8, 16, 16, 16), ConvBlock()
    keys = jax.random.split(jax.random.key(0), blocks)
    variables = [block.init(k, jnp.zeros(shape)) for k in keys]
    params = [v["params"] for v in variables]
    statistics = [v["batch_stats"] for v in variables]
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))

    def step(mark):
        layer = mark(lambda variables, x: block.apply(variables, x, mutable=["batch_stats"]))

        def loss(params, statistics, x):
            new = []
            for p, s in zip(params, statistics, strict=True):
                x, changed = layer({"params": p, "batch_stats": s}, x)
                new.append(changed)
            return jnp.mean(x**2), new

        return trained(loss, optimiser)

    return Training(step, (params, optimiser.init(params), statistics, normal(1, *shape)))


def flax_lstm() -> Training:
    """Unrolled; a block is three steps, and its carry a tuple."""
    steps, chunk, width, batch = 12, 3, 32, 128
    cell = nn.OptimizedLSTMCell(width)
    carry = cell.initialize_carry(jax.random.key(0), (batch, width))
    params = cell.init(jax.random.key(1), carry, normal(0, batch, width))["params"]
    optimiser = optax.adamw(1e-3, eps=EPS)

    def step(mark):
        @mark
        def block(params, carry, xs):
            outs = []
            for x in xs:
                carry, out = cell.apply({"params": params}, carry, x)
                outs.append(out)
            return carry, outs

        def loss(params, xs):
            state, total = carry, 0.0
            for start in range(0, steps, chunk):
                state, outs = block(params, state, tuple(xs[start : start + chunk]))
                total += jnp.mean(outs[-1] ** 2)
            return total, state

        return trained(loss, optimiser)

    return Training(step, (params, optimiser.init(params), normal(2, steps, batch, width)))


def flax_nnx() -> Training:
    """nnx keeps state in objects: blocks are split into a graph and arrays."""
    layers, width, batch = 6, 64, 256

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.Linear(width, 4 * width, rngs=rngs)
            self.down = nnx.Linear(4 * width, width, rngs=rngs)
            self.norm = nnx.RMSNorm(width, rngs=rngs)

        def __call__(self, x):
            return x + self.down(nnx.silu(self.up(self.norm(x))))

    split = [nnx.split(Block(nnx.Rngs(i))) for i in range(layers)]
    graph, params = split[0][0], [state for _, state in split]
    optimiser = optax.sgd(0.1)

    def step(mark):
        layer = mark(lambda state, x: nnx.merge(graph, state)(x))

        def loss(params, x):
            for p in params:
                x = layer(p, x)
            return jnp.mean(x**2), ()

        return trained(loss, optimiser)

    return Training(step, (params, optimiser.init(params), normal(1, batch, width)))


def equinox_attention() -> Training:
    """Equinox modules are pytrees of arrays and functions: the region takes the arrays."""
    layers, width, batch, length = 4, 32, 8, 64

    class Block(eqx.Module):
        attention: eqx.nn.MultiheadAttention
        norm: eqx.nn.LayerNorm
        mlp: eqx.nn.MLP

        def __init__(self, key):
            first, second = jax.random.split(key)
            self.attention = eqx.nn.MultiheadAttention(4, width, key=first)
            self.norm = eqx.nn.LayerNorm(width)
            self.mlp = eqx.nn.MLP(width, width, 2 * width, 1, key=second)

        def __call__(self, x):
            h = jax.vmap(self.norm)(x)
            mask = np.tril(np.ones((length, length), bool))
            x = x + self.attention(h, h, h, mask)
            return x + jax.vmap(self.mlp)(x)

    blocks = [Block(k) for k in jax.random.split(jax.random.key(0), layers)]
    params, static = eqx.partition(blocks, eqx.is_inexact_array)
    optimiser = optax.adam(1e-3, eps=EPS)

    def step(mark):
        def loss(params, x):
            for p, s in zip(params, static, strict=True):
                x = mark(lambda p, x, s=s: jax.vmap(eqx.combine(p, s))(x))(p, x)
            return jnp.mean(x**2), ()

        return trained(loss, optimiser)

    return Training(step, (params, optimiser.init(params), normal(1, batch, length, width)))


TRAININGS = [
    flax_mlp,
    flax_mlp_bf16,
    flax_conv_batch_norm,
    flax_lstm,
    flax_nnx,
    equinox_attention,
]
