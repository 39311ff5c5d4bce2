# SPDX-License-Identifier: Apache-2.0
"""A flax model with batch norm: the region returns the new running statistics too."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import hlo_remat


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(16, (3, 3))(x)))
        return x + nn.BatchNorm(use_running_average=False)(nn.Conv(16, (3, 3))(h))


block, optimiser = Block(), optax.adam(1e-3)


@hlo_remat.checkpoint
def layer(variables, x):
    return block.apply(variables, x, mutable=["batch_stats"])


def loss(params, statistics, x):
    new = []
    for p, s in zip(params, statistics, strict=True):
        x, changed = layer({"params": p, "batch_stats": s}, x)
        new.append(changed["batch_stats"])
    return jnp.mean(x**2), new


def train(params, statistics, state, x):
    (value, statistics), grads = jax.value_and_grad(loss, has_aux=True)(params, statistics, x)
    updates, state = optimiser.update(grads, state)
    return optax.apply_updates(params, updates), statistics, state, value


x = jax.random.normal(jax.random.key(0), (8, 16, 16, 16))
variables = [block.init(key, x) for key in jax.random.split(jax.random.key(1), 4)]
params = [v["params"] for v in variables]
statistics = [v["batch_stats"] for v in variables]
state = optimiser.init(params)

lowered = jax.jit(train, donate_argnums=(0, 1, 2)).lower(params, statistics, state, x)
marked, step = lowered.compile(), hlo_remat.apply(lowered).compile()
for name, compiled in [("as lowered", marked), ("hlo_remat", step)]:
    print(f"{name:12}{compiled.memory_analysis().temp_size_in_bytes / 2**20:6.2f} MiB temporary")
for i in range(5):
    params, statistics, state, value = step(params, statistics, state, x)
    print(f"step {i}: loss {value:.5f}")
