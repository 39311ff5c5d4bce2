# SPDX-License-Identifier: Apache-2.0
# RUN: %PYTHON %s | FileCheck %s
# ruff: noqa: E501
"""The markers of one region, in a forward and in a gradient."""

import jax
import jax.numpy as jnp

from hlo_remat import checkpoint

W, X = jax.ShapeDtypeStruct((3, 3), "float32"), jax.ShapeDtypeStruct((3,), "float32")


@checkpoint
def layer(w, x):
    return jnp.sin(w @ x)


def loss(w, x):
    return layer(w, x).sum()


# A forward alone: enter takes and returns the inputs, exit takes the outputs and the raw inputs.
# CHECK-LABEL: func.func public @main(
# CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<3x3xf32>, %[[X:[a-z0-9]+]]: tensor<3xf32>
# CHECK:       %[[IN:.*]]:2 = stablehlo.composite "hlo_remat.enter" %[[W]], %[[X]] {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "layer"}
# CHECK:       stablehlo.dot_general %[[IN]]#0, %[[IN]]#1
# CHECK:       %[[Y:.*]] = stablehlo.sine
# CHECK:       %[[OUT:.*]] = stablehlo.composite "hlo_remat.exit" %[[Y]], %[[W]], %[[X]] {composite_attributes = {num_inputs = 2 : i64, policy
# CHECK-NEXT:  return %[[OUT]]
print(jax.jit(layer).lower(W, X).as_text())


# The backward: bwd_enter takes the cotangents of the outputs, bwd_exit those of the inputs.
# CHECK-LABEL: func.func public @main(
# CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<3x3xf32>, %[[X:[a-z0-9]+]]: tensor<3xf32>
# CHECK:       stablehlo.composite "hlo_remat.enter" %[[W]], %[[X]] {
# CHECK:       %[[COS:.*]] = stablehlo.cosine
# CHECK:       %[[CT:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %[[W]], %[[X]] {
# CHECK:       stablehlo.multiply %[[CT]], %[[COS]]
# CHECK:       %[[CTS:.*]]:2 = stablehlo.composite "hlo_remat.bwd_exit" %{{.*}}, %{{.*}}, %[[W]], %[[X]] {
# CHECK-NEXT:  return %[[CTS]]#0, %[[CTS]]#1
print(jax.jit(jax.grad(loss, argnums=(0, 1))).lower(W, X).as_text())
