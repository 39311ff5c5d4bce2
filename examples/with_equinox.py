# SPDX-License-Identifier: Apache-2.0
"""Equinox: modules hold functions besides arrays, so the region takes the arrays alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import hlo_remat
from hlo_remat import checkpoint_policies as cp


def checkpointed(module, *args):
    """Calls a module as a region."""
    arrays, rest = eqx.partition(module, eqx.is_array)

    def call(arrays, *args):
        return jax.vmap(eqx.combine(arrays, rest))(*args)

    return hlo_remat.checkpoint(call, policy=cp.dots_with_no_batch_dims_saveable)(arrays, *args)


def loss(blocks, x):
    for block in blocks:
        x = x + checkpointed(block, x)
    return jnp.mean(x**2)


keys = jax.random.split(jax.random.key(0), 6)
blocks = [eqx.nn.MLP(64, 64, 256, 3, activation=jax.nn.gelu, key=k) for k in keys]
params, static = eqx.partition(blocks, eqx.is_inexact_array)
optimiser = optax.sgd(0.1)
state, x = optimiser.init(params), jax.random.normal(jax.random.key(1), (256, 64))


@jax.jit
def train(params, state, x):
    value, grads = jax.value_and_grad(lambda p: loss(eqx.combine(p, static), x))(params)
    updates, state = optimiser.update(grads, state)
    return optax.apply_updates(params, updates), state, value


lowered = train.lower(params, state, x)
step = hlo_remat.apply(lowered).compile()
for name, compiled in [("as lowered", lowered.compile()), ("hlo_remat", step)]:
    print(f"{name:12}{compiled.memory_analysis().temp_size_in_bytes / 2**20:6.2f} MiB temporary")
for i in range(5):
    params, state, value = step(params, state, x)
    print(f"step {i}: loss {value:.5f}")
