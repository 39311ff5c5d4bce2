# SPDX-License-Identifier: Apache-2.0
# RUN: %PYTHON %s | FileCheck %s
# ruff: noqa: E501
"""Policies and prevent_cse as attributes, and names as markers."""

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name as jax_name

from hlo_remat import checkpoint, checkpoint_name
from hlo_remat import checkpoint_policies as P

X = jax.ShapeDtypeStruct((3,), "float32")


def show(policy, name=checkpoint_name, **options):
    def block(x):
        return jnp.sin(name(jnp.sin(x), "h"))

    print(jax.jit(checkpoint(block, policy=policy, **options)).lower(X).as_text())


# CHECK: "hlo_remat.enter"{{.*}}policy = {kind = "dots_saveable"}, prevent_cse = false, region = "block"
show(P.dots_saveable, prevent_cse=False)

# CHECK: "hlo_remat.enter"{{.*}}policy = {kind = "dots_with_no_batch_dims_saveable"}, prevent_cse = array<i1: true>
show(P.checkpoint_dots_with_no_batch_dims, prevent_cse=(True,))

# A policy of JAX's own and a name given by JAX's checkpoint_name become the same.
# CHECK: "hlo_remat.enter"{{.*}}names = ["h"], policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}
# CHECK: %[[H:.*]] = stablehlo.sine
# CHECK: stablehlo.composite "hlo_remat.name" %[[H]] {composite_attributes = {name = "h"}, decomposition = @hlo_remat.identity_{{[0-9a-f]+}}, version = 1 : i32}
show(P.save_only_these_names("h"))

# CHECK: "hlo_remat.enter"{{.*}}names = ["h"], policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}
# CHECK: %[[H:.*]] = stablehlo.sine
# CHECK: stablehlo.composite "hlo_remat.name" %[[H]] {composite_attributes = {name = "h"}
show(jax.checkpoint_policies.save_only_these_names("h"), jax_name)

# CHECK: policy = {kind = "save_from_both_policies", policy_1 = {kind = "dots_saveable"}, policy_2 = {kind = "offload_dot_with_no_batch_dims", offload_dst = "pinned_host", offload_src = "device"}}
show(
    P.save_from_both_policies(
        P.dots_saveable, P.offload_dot_with_no_batch_dims("device", "pinned_host")
    )
)


# A callable is a key into a table of this process.
# CHECK: policy = {key = "mine#0", kind = "custom"}
def mine(prim, *avals, **params):
    return prim.name == "sin"


show(mine)
