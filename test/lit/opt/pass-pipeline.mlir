// RUN: hlo-remat-opt %s --pass-pipeline='builtin.module( func.func( cse ), hlo-remat-strip , symbol-dce )' | FileCheck %s
// RUN: hlo-remat-opt -p 'builtin.module(cse,symbol-dce)' %s | FileCheck %s

// CHECK-LABEL: func.func @twice
// CHECK: %[[SUM:.*]] = stablehlo.add
// CHECK-NEXT: stablehlo.multiply %[[SUM]], %[[SUM]]
func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = stablehlo.add %x, %x : tensor<2xf32>
  %b = stablehlo.add %x, %x : tensor<2xf32>
  %c = stablehlo.multiply %a, %b : tensor<2xf32>
  return %c : tensor<2xf32>
}

// CHECK-NOT: @unused
func.func private @unused() {
  return
}
