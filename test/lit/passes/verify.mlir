// RUN: hlo-remat-opt --split-input-file --hlo-remat-inline --hlo-remat-verify --hlo-remat-strip --hlo-remat-verify %s | FileCheck %s

// What is inlined is proven, in a loop and with effects too.

func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.add %x, %x : tensor<f32>
  stablehlo.custom_call @log(%y) {has_side_effect = true} : (tensor<f32>) -> ()
  return %y : tensor<f32>
}

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
// CHECK: stablehlo.add
// CHECK-NEXT: stablehlo.custom_call @log
// CHECK-NOT: call
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = func.call @twice(%a) : (tensor<f32>) -> tensor<f32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
