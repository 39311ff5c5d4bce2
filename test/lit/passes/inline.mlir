// RUN: hlo-remat-opt %s --hlo-remat-inline | FileCheck %s

// Calls are inlined through any depth, and private callees disappear.
// CHECK-NOT: func.func private @twice
// CHECK-NOT: func.func private @sin
func.func private @sin(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  return %0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @sin(%x) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @sin(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
// CHECK-LABEL: func.func @nested_calls
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK: %[[A:.*]] = stablehlo.sine %[[X]]
// CHECK: %[[B:.*]] = stablehlo.sine %[[A]]
// CHECK: return %[[B]]
func.func @nested_calls(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @twice(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// MLIR's own inliner leaves calls in the bodies of loops alone.
// CHECK-LABEL: func.func @call_in_while
// CHECK: stablehlo.while
// CHECK: do {
// CHECK-NOT: call
// CHECK: stablehlo.sine
func.func @call_in_while(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %y = func.call @sin(%c) : (tensor<f32>) -> tensor<f32>
      stablehlo.return %next, %y : tensor<i32>, tensor<f32>
    }
  return %0#1 : tensor<f32>
}

// CHECK-LABEL: func.func @call_in_case
// CHECK: "stablehlo.case"
// CHECK: stablehlo.sine
func.func @call_in_case(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.case"(%i) ({
    %y = func.call @sin(%x) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %y : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A call that must not be inlined stays, with its callee.
// CHECK: func.func private @kept
func.func private @kept(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.cosine %x : tensor<f32>
  return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @not_inlineable
// CHECK: call @kept
func.func @not_inlineable(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @kept(%x) {mhlo.frontend_attributes = {inlineable = "false"}} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A function that a composite refers to stays, though its calls are inlined.
// CHECK: func.func private @decomposition
func.func private @decomposition(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.tanh %x : tensor<f32>
  return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @composite
// CHECK: stablehlo.tanh
// CHECK: stablehlo.composite "some.op" %{{.*}} {decomposition = @decomposition}
func.func @composite(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @decomposition(%x) : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.composite "some.op" %0 {decomposition = @decomposition} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
