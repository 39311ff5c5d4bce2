// RUN: hlo-remat-opt %s --mlir-use-nameloc-as-prefix | FileCheck %s

// CHECK: %activation = stablehlo.tanh
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.tanh %x : tensor<f32> loc("activation")
  return %0 : tensor<f32>
}
