# SPDX-License-Identifier: Apache-2.0
"""The demo's model: a decoder-only transformer on characters, in flax, trained with optax."""

from __future__ import annotations

import dataclasses
import importlib.resources
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model and of a batch."""

    layers: int = 8
    width: int = 128
    heads: int = 4
    batch: int = 8
    length: int = 128


class Block(nn.Module):
    """Causal self-attention and a multi-layer perceptron, each behind a layer norm.

    `name_value` is a `checkpoint_name`: it names what enters the residual stream.
    """

    heads: int
    name_value: Callable[[Any, str], Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        h = nn.LayerNorm()(x)
        q, k, v = (
            nn.Dense(width, name=name)(h).reshape(batch, length, self.heads, -1)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width / self.heads)
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
        x = x + self.name_value(nn.Dense(width, name="out")(mixed), "attention")
        h = nn.Dense(4 * width, name="up")(nn.LayerNorm()(x))
        return x + self.name_value(nn.Dense(width, name="down")(nn.gelu(h)), "mlp")


@dataclasses.dataclass(frozen=True)
class Problem:
    """Parameters, optimiser state and one batch; `loss` and `step` are functions of `wrap`, which
    is applied to each layer, and of the `checkpoint_name` to use."""

    config: Config
    params: Any
    state: Any
    tokens: jax.Array

    def loss(self, wrap: Wrap, name_value: Callable[[Any, str], Any]) -> Callable[..., jax.Array]:
        block = Block(self.config.heads, name_value)

        def loss(params: Any, tokens: jax.Array) -> jax.Array:
            layer = wrap(lambda p, x: block.apply({"params": p}, x))
            x = params["embed"][tokens[:, :-1]] + params["position"]
            for p in params["layers"]:
                x = layer(p, x)
            logits = x @ params["embed"].T
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        return loss

    def step(self, wrap: Wrap, name_value: Callable[[Any, str], Any]) -> Callable[..., Any]:
        """`(params, state, tokens) -> (params, state, loss, gradients)`"""
        loss = self.loss(wrap, name_value)

        def step(params: Any, state: Any, tokens: jax.Array) -> Any:
            value, grads = jax.value_and_grad(loss)(params, tokens)
            updates, state = _optimiser().update(grads, state, params)
            return optax.apply_updates(params, updates), state, value, grads

        return step


def make_problem(config: Config) -> Problem:
    """Initialises the model and takes a batch from the corpus."""
    text = importlib.resources.files("hlo_remat.demo").joinpath("corpus.txt").read_text()
    characters = sorted(set(text))
    ids = np.array([characters.index(c) for c in text], np.int32)
    starts = np.linspace(0, len(ids) - config.length - 2, config.batch).astype(int)
    tokens = jnp.asarray(np.stack([ids[s : s + config.length + 1] for s in starts]))

    keys = jax.random.split(jax.random.key(0), config.layers + 2)
    block = Block(config.heads, lambda x, name: x)
    sample = jnp.zeros((1, config.length, config.width))
    params = {
        "embed": 0.02 * jax.random.normal(keys[0], (len(characters), config.width)),
        "position": 0.02 * jax.random.normal(keys[1], (config.length, config.width)),
        "layers": [block.init(k, sample)["params"] for k in keys[2:]],
    }
    return Problem(config, params, _optimiser().init(params), tokens)


def _optimiser() -> optax.GradientTransformation:
    return optax.adam(1e-3)
