# SPDX-License-Identifier: Apache-2.0
"""Whole training steps, loss, gradients and optimiser, each built from a `wrap` for its layers and
a `checkpoint_name`: for the budget's side both do nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import lax
from models import Name, Wrap

from hlo_remat.demo.model import Block, Config, Problem, make_problem

Build = Callable[[Wrap, Name], Callable[..., Any]]


@dataclasses.dataclass(frozen=True)
class Step:
    """`step(wrap, name)` is a function of `arguments`; `names` are what its layers name.

    `regions` are the other ways to place jax.checkpoint by hand that people use for such a model,
    by what a region is; `has_loops` says whether a region is in a loop's body.
    """

    step: Build
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    has_loops: bool = False
    regions: dict[str, Build] = dataclasses.field(default_factory=dict)


def _trained(
    loss: Build,
    params: Any,
    batch: tuple[Any, ...],
    names: tuple[str, ...],
    has_loops: bool = False,
    regions: dict[str, Build] | None = None,
) -> Step:
    """Steps of adam, from losses of the parameters and a batch that also return the model's new
    state."""
    optimiser = optax.adam(1e-3)

    def stepped(loss: Build) -> Build:
        def build(wrap: Wrap, name: Name) -> Callable[..., Any]:
            of_parameters = jax.value_and_grad(loss(wrap, name), has_aux=True)

            def step(params: Any, state: Any, *batch: Any) -> Any:
                (value, model_state), gradients = of_parameters(params, *batch)
                updates, state = optimiser.update(gradients, state, params)
                return optax.apply_updates(params, updates), state, value, model_state

            return step

        return build

    arguments = (params, optimiser.init(params), *batch)
    others = {label: stepped(other) for label, other in (regions or {}).items()}
    return Step(stepped(loss), arguments, names, has_loops, others)


def _normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def _labels(seed: int, *shape: int) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), shape, 0, 10)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def transformer() -> Step:
    """The demo's decoder in flax, 8 unrolled layers."""
    problem = make_problem(Config())
    arguments = (problem.params, problem.state, problem.tokens)
    return Step(problem.step, arguments, ("attention", "mlp"))


def scanned_transformer() -> Step:
    """The same decoder whose layers are one scan."""
    problem: Problem = make_problem(Config())

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        block = Block(problem.config.heads, name)
        layer = wrap(lambda p, x: block.apply({"params": p}, x))

        def f(params: Any, tokens: Any) -> Any:
            x = params["embed"][tokens[:, :-1]] + params["position"]
            x = lax.scan(lambda x, p: (layer(p, x), None), x, params["layers"])[0]
            return _cross_entropy(x @ params["embed"].T, tokens[:, 1:]), None

        return f

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problem.params["layers"])
    params = {**problem.params, "layers": stacked}
    return _trained(loss, params, (problem.tokens,), ("attention", "mlp"), has_loops=True)


class _Basic(nn.Module):
    """ResNet's basic block: two convolutions with batch norm, and a projection where it shrinks."""

    channels: int
    stride: int
    name_value: Name

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def normalised(x: Any) -> Any:
            return nn.BatchNorm(use_running_average=False)(x)

        h = nn.Conv(self.channels, (3, 3), self.stride, use_bias=False)(x)
        h = nn.relu(normalised(self.name_value(h, "conv")))
        h = normalised(self.name_value(nn.Conv(self.channels, (3, 3), use_bias=False)(h), "conv"))
        if x.shape != h.shape:
            x = normalised(nn.Conv(self.channels, (1, 1), self.stride, use_bias=False)(x))
        return nn.relu(x + h)


def resnet18(batch: int = 16, size: int = 32, width: int = 32) -> Step:
    """ResNet-18 in flax for small images, at half its width."""
    shapes = [(width << i // 2, 2 if i in (2, 4, 6) else 1) for i in range(8)]

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        stem = nn.Conv(width, (3, 3), use_bias=False)
        layers = []
        for shape in shapes:
            block = _Basic(*shape, name)
            layers.append(wrap(lambda v, x, b=block: b.apply(v, x, mutable=["batch_stats"])))

        def f(params: Any, statistics: Any, images: Any, labels: Any) -> Any:
            x, new = stem.apply({"params": params["stem"]}, images), []
            for layer, p, s in zip(layers, params["blocks"], statistics, strict=True):
                x, changed = layer({"params": p, "batch_stats": s}, x)
                new.append(changed["batch_stats"])
            return _cross_entropy(x.mean((1, 2)) @ params["head"], labels), new

        return f

    images = _normal(1, batch, size, size, 3)
    x = jnp.zeros((1, size, size, width))
    params: dict[str, Any] = {
        "stem": nn.Conv(width, (3, 3), use_bias=False).init(jax.random.key(2), images)["params"],
        "head": 0.05 * _normal(3, width * 8, 10),
        "blocks": [],
    }
    statistics = []
    for i, shape in enumerate(shapes):
        block = _Basic(*shape, lambda x, name: x)
        variables = block.init(jax.random.key(i), x)
        x = block.apply(variables, x, mutable=["batch_stats"])[0]
        params["blocks"].append(variables["params"])
        statistics.append(variables["batch_stats"])
    return _trained(loss, params, (statistics, images, _labels(4, batch)), ("conv",))


class _Double(nn.Module):
    """U-Net's block: two convolutions, each with group norm and a silu."""

    channels: int
    name_value: Name

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = self.name_value(nn.Conv(self.channels, (3, 3))(x), "conv")
            x = nn.silu(nn.GroupNorm(8)(x))
        return x


def unet(batch: int = 8, size: int = 64, width: int = 16, levels: int = 3) -> Step:
    """A U-Net in flax that removes noise from images: its skips live from down to up."""
    widths = [width << i for i in range(levels)]
    channels = [*widths, width << levels, *reversed(widths)]

    def forward(layers: Any, params: Any, x: Any) -> Any:
        skips, blocks = [], iter(zip(layers, params["blocks"], strict=True))
        for _ in widths:
            layer, p = next(blocks)
            skips.append(layer(p, x))
            x = nn.avg_pool(skips[-1], (2, 2), (2, 2))
        layer, p = next(blocks)
        x = layer(p, x)
        for layer, p in blocks:
            skip = skips.pop()
            x = jax.image.resize(x, (*skip.shape[:3], x.shape[3]), "nearest")
            x = layer(p, jnp.concatenate([x, skip], -1))
        return x @ params["head"]

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        blocks = [_Double(c, name) for c in channels]
        layers = [wrap(lambda p, x, b=block: b.apply({"params": p}, x)) for block in blocks]
        return lambda params, images, noise: (
            jnp.mean((forward(layers, params, images + noise) - noise) ** 2),
            None,
        )

    incoming = [3, *channels[: levels + 1], *channels[levels + 1 : -1]]
    skipped = [0] * (levels + 1) + widths[::-1]
    blocks = [
        _Double(c, lambda x, name: x).init(
            jax.random.key(i), jnp.zeros((1, 8, 8, incoming[i] + skipped[i]))
        )["params"]
        for i, c in enumerate(channels)
    ]
    params = {"blocks": blocks, "head": 0.1 * _normal(2, width, 3)}
    images, noise = (_normal(seed, batch, size, size, 3) for seed in (3, 4))
    return _trained(loss, params, (images, noise), ("conv",))


def gru(steps: int = 1024, width: int = 128, batch: int = 16, chunk: int = 32) -> Step:
    """A GRU over 1,024 steps in one scan, a loss at each step. A region is a step; by hand
    one also scans over chunks of 32 steps and takes such a chunk."""
    cell = nn.GRUCell(width)

    def loss(wrap: Wrap, name: Name, per_region: int = 1) -> Callable[..., Any]:
        def one(params: Any, h: Any, x: Any) -> Any:
            h = name(cell.apply({"params": params["cell"]}, h, x)[0], "state")
            return h, h @ params["head"]

        def several(params: Any, h: Any, xs: Any) -> Any:
            return lax.scan(lambda h, x: one(params, h, x), h, xs)

        region = wrap(one if per_region == 1 else several)

        def f(params: Any, xs: Any, ys: Any) -> Any:
            if per_region > 1:
                xs = xs.reshape(steps // per_region, per_region, *xs.shape[1:])
            _, out = lax.scan(lambda h, x: region(params, h, x), jnp.zeros((batch, width)), xs)
            return jnp.mean((out.reshape(ys.shape) - ys) ** 2), None

        return f

    xs, ys = _normal(0, steps, batch, width), _normal(1, steps, batch, 1)
    params = {
        "cell": cell.init(jax.random.key(2), jnp.zeros((batch, width)), xs[0])["params"],
        "head": 0.1 * _normal(3, width, 1),
    }

    def by_chunk(wrap: Wrap, name: Name) -> Callable[..., Any]:
        return loss(wrap, name, chunk)

    return _trained(
        loss, params, (xs, ys), ("state",), has_loops=True, regions={f"{chunk} steps": by_chunk}
    )


def experts(
    layers: int = 6, tokens: int = 1024, width: int = 128, count: int = 8, chosen: int = 2
) -> Step:
    """Blocks of a mixture of experts, two of eight for each token, as one-hot products with a
    capacity."""
    capacity = tokens * chosen // count * 5 // 4

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def block(p: Any, x: Any) -> Any:
            h = jax.nn.standardize(x, epsilon=1e-5) * p["scale"]
            gates, index = lax.top_k(jax.nn.softmax(h @ p["router"]), chosen)
            mask = jax.nn.one_hot(index, count)
            place = jnp.cumsum(mask.reshape(-1, count), 0).reshape(mask.shape) * mask - 1
            slots = jax.nn.one_hot(place.astype(jnp.int32), capacity)
            combine = jnp.einsum("tk,tkec->tec", gates, slots)
            dispatch = slots.sum(1)
            inputs = name(jnp.einsum("tec,tw->ecw", dispatch, h), "dispatched")
            hidden = jax.nn.gelu(name(jnp.einsum("ecw,ewh->ech", inputs, p["up"]), "up"))
            outputs = jnp.einsum("ech,ehw->ecw", hidden, p["down"])
            return x + jnp.einsum("tec,ecw->tw", combine, outputs)

        layer = wrap(block)

        def f(params: Any, x: Any, labels: Any) -> Any:
            for p in params["blocks"]:
                x = layer(p, x)
            return _cross_entropy(x @ params["head"], labels), None

        return f

    blocks = [
        {
            "scale": jnp.ones(width),
            "router": 0.1 * _normal(3 * i, width, count),
            "up": 0.1 * _normal(3 * i + 1, count, width, 2 * width),
            "down": 0.1 * _normal(3 * i + 2, count, 2 * width, width),
        }
        for i in range(layers)
    ]
    params = {"blocks": blocks, "head": 0.1 * _normal(99, width, 10)}
    batch = _normal(98, tokens, width), _labels(97, tokens)
    return _trained(loss, params, batch, ("dispatched", "up"))


class _Mixer(eqx.Module):
    """A block of an MLP-Mixer: an MLP over the patches, then one over the channels."""

    over_patches: eqx.nn.MLP
    over_channels: eqx.nn.MLP
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, patches: int, channels: int, key: jax.Array) -> None:
        a, b = jax.random.split(key)
        self.over_patches = eqx.nn.MLP(patches, patches, 2 * patches, 1, jax.nn.gelu, key=a)
        self.over_channels = eqx.nn.MLP(channels, channels, 4 * channels, 1, jax.nn.gelu, key=b)
        self.norms = [eqx.nn.LayerNorm(channels) for _ in range(2)]

    def __call__(self, x: jax.Array, name: Name) -> jax.Array:
        h = jax.vmap(self.norms[0])(x)
        x = x + name(jax.vmap(self.over_patches)(h.T).T, "patches")
        return x + name(jax.vmap(self.over_channels)(jax.vmap(self.norms[1])(x)), "channels")


def mixer(layers: int = 8, batch: int = 16, patches: int = 64, channels: int = 128) -> Step:
    """An MLP-Mixer in equinox."""
    keys = jax.random.split(jax.random.key(0), layers)
    blocks = [_Mixer(patches, channels, key) for key in keys]
    parts = [eqx.partition(block, eqx.is_inexact_array) for block in blocks]

    def loss(wrap: Wrap, name: Name) -> Callable[..., Any]:
        calls = [
            wrap(lambda p, x, s=static: jax.vmap(lambda x: eqx.combine(p, s)(x, name))(x))
            for _, static in parts
        ]

        def f(params: Any, x: Any, labels: Any) -> Any:
            for call, p in zip(calls, params["blocks"], strict=True):
                x = call(p, x)
            return _cross_entropy(x.mean(1) @ params["head"], labels), None

        return f

    params = {"blocks": [p for p, _ in parts], "head": 0.1 * _normal(1, channels, 10)}
    batch_of = (_normal(2, batch, patches, channels), _labels(3, batch))
    return _trained(loss, params, batch_of, ("patches", "channels"))


def ladder(layers: int = 4, width: int = 256, heads: int = 4, length: int = 256) -> Step:
    """Attention and a gelu without norms, with a name at each value that a person would save: the
    gradients alone."""
    each = width // heads

    def step(wrap: Wrap, name: Name) -> Callable[..., Any]:
        def block(p: Any, x: Any) -> Any:
            q, k, v = (name(jnp.einsum("bsd,dhe->bshe", x, p[w]), "qkv") for w in "qkv")
            scores = name(jnp.einsum("bqhe,bkhe->bhqk", q, k) / each**0.5, "scores")
            mixed = name(jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores), v), "mixed")
            x = x + name(jnp.einsum("bqhe,hed->bqd", mixed, p["o"]), "attention")
            up = name(x @ p["up"], "up")
            return x + name(jax.nn.gelu(up), "gelu") @ p["down"]

        layer = wrap(block)

        def loss(params: Any, x: Any) -> Any:
            for p in params:
                x = layer(p, x)
            return jnp.sum(x**2)

        return jax.grad(loss)

    shapes = {
        **dict.fromkeys("qkv", (width, heads, each)),
        "o": (heads, each, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    params = [
        {w: 0.02 * _normal(i, *shape) for i, (w, shape) in enumerate(shapes.items())}
        for _ in range(layers)
    ]
    names = ("qkv", "scores", "mixed", "attention", "up", "gelu")
    return Step(step, (params, _normal(9, 2, length, width)), names)


STEPS: dict[str, Callable[[], Step]] = {
    "transformer": transformer,
    "scanned_transformer": scanned_transformer,
    "resnet18": resnet18,
    "unet": unet,
    "gru": gru,
    "experts": experts,
    "mixer": mixer,
}
