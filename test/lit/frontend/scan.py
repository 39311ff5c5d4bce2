# SPDX-License-Identifier: Apache-2.0
# RUN: %PYTHON %s | FileCheck %s
"""A region in a scan: the backward reads the raw xs and constants; no weights are stacked."""

import jax
import jax.numpy as jnp

from hlo_remat import checkpoint

W = jax.ShapeDtypeStruct((3, 3), "float32")
BIASES = jax.ShapeDtypeStruct((5, 3), "float32")
X = jax.ShapeDtypeStruct((3,), "float32")


@checkpoint
def layer(w, b, x):
    return jnp.sin(w @ x + b)


def loss(w, biases, x):
    return jax.lax.scan(lambda x, b: (layer(w, b, x), None), x, biases)[0].sum()


# CHECK-LABEL: func.func public @main(
# CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<3x3xf32>, %[[B:[a-z0-9]+]]: tensor<5x3xf32>
# CHECK:       stablehlo.while({{.*}} = %[[W]]
# CHECK-NOT:   tensor<5x3x3xf32>
# CHECK:       stablehlo.while({{.*}} = %[[B]]{{.*}} = %[[W]]
# CHECK-NOT:   tensor<5x3x3xf32>
# CHECK:       "hlo_remat.bwd_enter"
# CHECK-NOT:   tensor<5x3x3xf32>
print(jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(W, BIASES, X).as_text())
