// RUN: hlo-remat-opt %s --hlo-remat-pin-buffers='min-bytes=48 target=cpu jaxlib=0.12.0' | FileCheck %s
// RUN: hlo-remat-opt %s --hlo-remat-pin-buffers='min-bytes=48 target=cpu jaxlib=0.10.2' | FileCheck %s --check-prefix=CALL
// RUN: hlo-remat-opt %s --hlo-remat-pin-buffers='min-bytes=49' | FileCheck %s --check-prefix=LARGE

// The zeros wait for the carry; a function's argument is there from the start.
// CHECK-LABEL: func.func @stack
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>)
// CHECK: %[[S:.*]] = stablehlo.sine %[[X]]
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[F:.*]]:2 = stablehlo.optimization_barrier %[[S]], %[[ZERO]] : tensor<4xf32>, tensor<f32>
// CHECK: %[[Z:.*]] = stablehlo.broadcast_in_dim %[[F]]#1, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[Z]], %{{.*}} = %[[F]]#0, %{{.*}} = %[[W]])
// CALL-LABEL: func.func @stack
// CALL: call @hlo_remat.fenced
// LARGE-LABEL: func.func @stack
// LARGE-NOT: optimization_barrier
func.func @stack(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
  %y = stablehlo.sine %x : tensor<4xf32>
  %r:4 = stablehlo.while(%i = %zero, %s = %zeros, %c = %y, %v = %w) : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t = stablehlo.dynamic_update_slice %s, %row, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %n = stablehlo.multiply %c, %v : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %n, %v : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#1, %r#2 : tensor<3x4xf32>, tensor<4xf32>
}

// Nothing to wait for: all that the loop starts with is there at once.
// CHECK-LABEL: func.func @at_the_start
// CHECK-NOT: optimization_barrier
func.func @at_the_start(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %zero, %s = %zeros, %c = %x) : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t = stablehlo.dynamic_update_slice %s, %row, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %c : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>
  }
  return %r#1 : tensor<3x4xf32>
}
