# SPDX-License-Identifier: Apache-2.0
"""Training losses built from a `wrap` for the block and a `checkpoint_name`, so that every variant
of a model is the same code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

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


def scanned_transformer(
    layers: int = 12, width: int = 128, heads: int = 4, length: int = 256, batch: int = 2
) -> Model:
    """A decoder whose layers are one scan."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def normalised(x: Any) -> Any:
            centred = x - x.mean(-1, keepdims=True)
            return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6)

        def block(w: Any, x: Any) -> Any:
            q, k, v = jnp.split(normalised(x) @ w["qkv"], 3, -1)
            split = (batch, length, heads, width // heads)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q.reshape(split), k.reshape(split))
            mask = jnp.tril(jnp.ones((length, length), bool))
            weights = jax.nn.softmax(jnp.where(mask, scores / (width // heads) ** 0.5, -1e9))
            mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v.reshape(split)).reshape(x.shape)
            x = x + name(mixed @ w["out"], "attention")
            return x + name(jax.nn.gelu(normalised(x) @ w["up"]) @ w["down"], "mlp")

        run = wrap(block)
        return lambda w, x: jnp.sum(lax.scan(lambda c, w: (run(w, c), None), x, w)[0] ** 2)

    weights = {
        "qkv": _normal(0, layers, width, 3 * width),
        "out": _normal(1, layers, width, width),
        "up": _normal(2, layers, width, 4 * width),
        "down": _normal(3, layers, 4 * width, width),
    }
    return Model(loss, (weights, _normal(4, batch, length, width)), ("attention", "mlp"))


def scanned_gru(steps: int = 512, width: int = 128, batch: int = 32) -> Model:
    """A GRU over time; a block is a step."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def cell(w: Any, h: Any, x: Any) -> Any:
            gates = name(jnp.concatenate([x, h], -1) @ w["gates"], "gates")
            r, z = jnp.split(jax.nn.sigmoid(gates), 2, -1)
            new = jnp.tanh(jnp.concatenate([x, r * h], -1) @ w["new"])
            return (1 - z) * h + z * new

        run = wrap(cell)
        start = jnp.zeros((batch, width))
        return lambda w, xs: jnp.sum(lax.scan(lambda h, x: (run(w, h, x), None), start, xs)[0] ** 2)

    weights = {"gates": _normal(0, 2 * width, 2 * width), "new": _normal(1, 2 * width, width)}
    return Model(loss, (weights, _normal(2, steps, batch, width)), ("gates",))


def chunked_rnn(chunks: int = 25, steps: int = 40, width: int = 128, batch: int = 32) -> Model:
    """A scan of scans over time; a block is a chunk of steps."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def chunk(w: Any, h: Any, xs: Any) -> Any:
            def step(h: Any, x: Any) -> Any:
                return jnp.tanh(name(h @ w[0], "state") + x @ w[1]), None

            return lax.scan(step, h, xs)[0]

        run = wrap(chunk)
        start = jnp.zeros((batch, width))
        return lambda w, xs: jnp.sum(lax.scan(lambda h, x: (run(w, h, x), None), start, xs)[0] ** 2)

    weights = _normal(0, 2, width, width)
    return Model(loss, (weights, _normal(1, chunks, steps, batch, width)), ("state",))


def scanned_cond(layers: int = 12, width: int = 128, batch: int = 256) -> Model:
    """Layers in one scan, of which every second one is skipped."""

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def costly(w: Any, x: Any) -> Any:
            return x + jnp.tanh(name(jax.nn.gelu(x @ w[0]) @ w[1], "up"))

        def block(w: Any, x: Any, i: Any) -> Any:
            return lax.cond(i % 2 == 0, costly, lambda w, x: jnp.sin(x), w, x)

        run = wrap(block)

        def f(w: Any, x: Any) -> Any:
            xs = w, jnp.arange(layers)
            return jnp.sum(lax.scan(lambda c, x: (run(x[0], c, x[1]), None), x, xs)[0] ** 2)

        return f

    return Model(loss, (_normal(0, layers, 2, width, width), _normal(1, batch, width)), ("up",))


def sharded_mlp(layers: int = 8, width: int = 128, batch: int = 2048) -> Model:
    """An MLP in the body of a shard_map: the batch is split, each layer gathers its weights."""
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    by_width, by_batch = PartitionSpec(None, None, None, "data"), PartitionSpec("data")

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def block(w: Any, x: Any) -> Any:
            w = lax.all_gather(w, "data", axis=2, tiled=True)
            return x + jnp.tanh(name(jax.nn.gelu(x @ w[0]) @ w[1], "up"))

        run = wrap(block)

        def local(w: Any, x: Any) -> Any:
            for i in range(layers):
                x = run(w[i], x)
            return lax.psum(jnp.sum(x**2), "data")

        return jax.shard_map(
            local, mesh=mesh, in_specs=(by_width, by_batch), out_specs=PartitionSpec()
        )

    values = _normal(0, layers, 2, width, width), _normal(1, batch, width)
    arguments = tuple(
        jax.device_put(value, NamedSharding(mesh, spec))
        for value, spec in zip(values, (by_width, by_batch), strict=True)
    )
    return Model(loss, arguments, ("up",))


MODELS: dict[str, Callable[[], Model]] = {
    "transformer": transformer,
    "mlp": mlp,
    "resnet": resnet,
    "lstm": lstm,
}
CONTROL_FLOW: dict[str, Callable[[], Model]] = {
    "scanned_transformer": scanned_transformer,
    "scanned_gru": scanned_gru,
    "chunked_rnn": chunked_rnn,
    "scanned_cond": scanned_cond,
    "sharded_mlp": sharded_mlp,
}
