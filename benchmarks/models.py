# SPDX-License-Identifier: Apache-2.0
"""Training losses built from a `wrap` for the block and a `checkpoint_name`, so that every variant
of a model is the same code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hlo_remat.demo.model import Config, make_problem

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Name = Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Model:
    """`loss(wrap, name)` is a function of `arguments`; gradients are with respect to the first.
    `names` are the names that its block gives."""

    loss: Callable[[Wrap, Name], Callable[..., Any]]
    arguments: tuple[Any, ...]
    names: tuple[str, ...]


def _normal(seed: int, *shape: int) -> jax.Array:
    fan_in = shape[-2] if len(shape) > 1 else 1
    return jax.random.normal(jax.random.key(seed), shape) / fan_in**0.5


def transformer() -> Model:
    """An unrolled decoder in flax, 8 layers: the demo's."""
    problem = make_problem(Config())
    return Model(problem.loss, (problem.params, problem.tokens), ("attention", "mlp"))


def mlp(layers: int = 16, width: int = 512, batch: int = 512) -> Model:
    """Residual blocks of layer norm, two dense layers and a gelu."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def block(p: Any, x: Any) -> Any:
            h = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
            h = name((h * p["scale"] + p["bias"]) @ p["up"], "up")
            return x + jax.nn.gelu(h) @ p["down"]

        layer = wrap(block)

        def f(params: Any, x: Any) -> Any:
            for p in params:
                x = layer(p, x)
            return jnp.sum(x**2)

        return f

    params = [
        {
            "scale": jnp.ones(width),
            "bias": jnp.zeros(width),
            "up": _normal(2 * i, width, width),
            "down": _normal(2 * i + 1, width, width),
        }
        for i in range(layers)
    ]
    return Model(loss, (params, _normal(99, batch, width)), ("up",))


def resnet(blocks: int = 8, channels: int = 32, size: int = 32, batch: int = 8) -> Model:
    """Residual blocks of two convolutions, each with batch norm."""

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def batch_norm(x: Any, scale: Any, bias: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def block(p: Any, x: Any) -> Any:
            h = name(convolve(x, p["w0"]), "conv")
            h = jax.nn.relu(batch_norm(h, p["s0"], p["b0"]))
            return jax.nn.relu(x + batch_norm(convolve(h, p["w1"]), p["s1"], p["b1"]))

        layer = wrap(block)

        def f(params: Any, x: Any) -> Any:
            for p in params:
                x = layer(p, x)
            return jnp.sum(x**2)

        return f

    params = [
        {
            "w0": _normal(2 * i, 3, 3, channels, channels) / 3,
            "w1": _normal(2 * i + 1, 3, 3, channels, channels) / 3,
            **{name: jnp.ones(channels) for name in ("s0", "s1")},
            **{name: jnp.zeros(channels) for name in ("b0", "b1")},
        }
        for i in range(blocks)
    ]
    return Model(loss, (params, _normal(98, batch, size, size, channels)), ("conv",))


def lstm(steps: int = 32, width: int = 256, batch: int = 64, chunk: int = 4) -> Model:
    """An LSTM unrolled by hand; a block is `chunk` steps."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def cell(w: Any, carry: Any, x: Any) -> Any:
            h, c = carry
            gates = name(jnp.concatenate([x, h], -1) @ w, "gates")
            i, f, g, o = jnp.split(gates, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return jax.nn.sigmoid(o) * jnp.tanh(c), c

        def block(w: Any, carry: Any, xs: Any) -> Any:
            for x in xs:
                carry = cell(w, carry, x)
            return carry

        run = wrap(block)

        def f(w: Any, xs: Any) -> Any:
            carry = jnp.zeros((batch, width)), jnp.zeros((batch, width))
            for start in range(0, steps, chunk):
                carry = run(w, carry, tuple(xs[start : start + chunk]))
            return jnp.sum(carry[0] ** 2)

        return f

    return Model(
        loss, (_normal(0, 2 * width, 4 * width), _normal(97, steps, batch, width)), ("gates",)
    )


MODELS: dict[str, Callable[[], Model]] = {
    "transformer": transformer,
    "mlp": mlp,
    "resnet": resnet,
    "lstm": lstm,
}
