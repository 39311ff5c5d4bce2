// What is recomputed has no stack: of the carries of both loops the counter, the carry or the cotangent, and
// the stack of the region's inputs are left.
//
// RUN: hlo-remat-opt %s --hlo-remat-pipeline --split-input-file | FileCheck %s
// The backward reads from the last trip to the first.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>{{$}}
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>{{$}}
// CHECK: stablehlo.cosine
// CHECK-NOT: stablehlo.while
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// A reverse scan: the forward writes from the last row to the first.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>{{$}}
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>{{$}}
// CHECK: stablehlo.cosine
// CHECK-NOT: stablehlo.while
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %q = stablehlo.subtract %two, %i : tensor<i32>
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %q, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %q, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %x1 = stablehlo.dynamic_slice %v1, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}
