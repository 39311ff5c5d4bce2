# SPDX-License-Identifier: Apache-2.0
"""What a module does beside its main function's results is part of the proof."""

from __future__ import annotations

import pytest

import hlo_remat

G = """
func.func private @g(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  return %0 : tensor<f32>
}
"""
CONTROL_FLOW = """
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^a
^a:
  %0 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"""
RECURSION = """
func.func private @f(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = "stablehlo.if"(%p) ({
    %1 = func.call @f(%false, %x) : (tensor<i1>, tensor<f32>) -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }, {
    %1 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %0 = func.call @f(%true, %x) : (tensor<i1>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"""


@pytest.mark.parametrize("module", [CONTROL_FLOW, RECURSION], ids=["control flow", "recursion"])
def test_functions_that_are_not_inlined_call_the_same_functions(module):
    assert hlo_remat.verify(G + module, G + module)
    assert not hlo_remat.verify(G + module, G.replace("sine", "cosine") + module)


def test_the_mesh_that_arguments_are_sharded_over_is_the_same():
    module = """
    sdy.mesh @mesh = <["a"=2, "b"=2]>
    func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})
        -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
    """
    assert hlo_remat.verify(module, module)
    assert not hlo_remat.verify(module, module.replace('"a"=2, "b"=2', '"a"=4, "b"=1'))
