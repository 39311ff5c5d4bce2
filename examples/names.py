# SPDX-License-Identifier: Apache-2.0
"""Choose by name what is saved, and see what that is before compiling anything."""

import jax
import jax.numpy as jnp

import hlo_remat
from hlo_remat import checkpoint_name
from hlo_remat import checkpoint_policies as cp


def block(params, x):
    """Attention over a batch of sequences, and a gated unit; both results have names."""
    q, k, v = (x @ w for w in params["qkv"])
    weights = jax.nn.softmax(q @ k.mT / q.shape[-1] ** 0.5)
    x = x + checkpoint_name(weights @ v, "attention")
    return x + checkpoint_name(jax.nn.silu(x @ params["up"]) @ params["down"], "mlp")


def loss(params, x, policy):
    layer = hlo_remat.checkpoint(block, policy=policy)
    for p in params:
        x = layer(p, x)
    return jnp.mean(x**2)


width = 64
params = [
    {
        "qkv": jnp.full((3, width, width), 0.01),
        "up": jnp.full((width, 4 * width), 0.01),
        "down": jnp.full((4 * width, width), 0.01),
    }
] * 2
x = jnp.ones((8, 128, width))

for policy in (cp.nothing_saveable, cp.save_only_these_names("attention"), cp.dots_saveable):
    print(f"\n{policy}")
    hlo_remat.print_saved_residuals(lambda ps, x, p=policy: loss(ps, x, p), params, x)

# A name that is not there is an error, not a silent fallback.
try:
    loss(params, x, cp.save_only_these_names("atention"))
except hlo_remat.UnknownNameError as error:
    print(f"\n{error}")
