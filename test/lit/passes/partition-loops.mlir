// Backward loops that read the stacks of a forward loop, most of them in a way that must not be taken
// for what the region made. What is not proven stays saved.
//
// RUN: hlo-remat-opt %s --hlo-remat-partition --split-input-file --verify-diagnostics | FileCheck %s
// The backward reads what the region made, from the last trip to the first.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
// CHECK: stablehlo.multiply %[[B]]#0, %[[B]]#2
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// From the first to the last, at the rows that the forward wrote from the last to the first.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
// CHECK: stablehlo.multiply %[[B]]#0, %[[B]]#2
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %x1 = stablehlo.dynamic_slice %v1, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The residual of the trip after the one whose input it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<2> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %one, %j : tensor<i32>
    %k1 = stablehlo.add %k, %one : tensor<i32>
    // expected-remark@+2 {{of another trip than the region's inputs}}
    %x1 = stablehlo.dynamic_slice %v1, %k1, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// Read from the first trip to the last where the inputs are read from the last to the first.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+2 {{of another trip than the region's inputs}}
    %x1 = stablehlo.dynamic_slice %v1, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// Written in reverse where the inputs are not.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+2 {{of another trip than the region's inputs}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// A second write into the stack.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %t3 = stablehlo.dynamic_update_slice %t1, %u2, %zero, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t3, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the forward loop doesn't write it once a trip, and nothing else}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// Something else reads the stack in the loop, and feeds the next trip.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %a = stablehlo.dynamic_slice %s1, %zero, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %a1 = stablehlo.reshape %a : (tensor<1x4xf32>) -> tensor<4xf32>
    %o2 = stablehlo.add %o, %a1 : tensor<4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o2, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the forward loop doesn't write it once a trip, and nothing else}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The stack of inputs is read in the place of that of residuals.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#3, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The stack is changed between the loops.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
  %changed = stablehlo.add %f#2, %f#3 : tensor<3x4xf32>
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %changed, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The row comes from data.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %row: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %row, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The forward's row comes from data.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %row: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %row, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// More trips than rows: the last row is written again and again.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The backward starts behind what was written: XLA clamps the row.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %three = stablehlo.add %two, %two : tensor<i32>
    %k = stablehlo.subtract %three, %j : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The trips are not known.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %len: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %len : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The inputs are those of the first trip, the residuals of each.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+2 {{of another trip than the region's inputs}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %zero, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The stack is changed by the backward.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    %changed = stablehlo.negate %v1 : tensor<3x4xf32>
    stablehlo.return %next, %bx, %changed, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The stack is read as a whole.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
    %x1 = stablehlo.reverse %v1, dims = [0] : tensor<3x4xf32>
    %x3 = stablehlo.slice %x1 [0:1, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x3 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// Two rows are read at once.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
    %xs = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [2, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %x1 = stablehlo.slice %xs [0:1, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// A branch reads the stack.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
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
    %p = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %half = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %x1 = "stablehlo.if"(%half) ({
      // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
      %y1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      stablehlo.return %y1 : tensor<1x4xf32>
    }, {
      // expected-remark@+1 {{what is read here is saved: it isn't proven to be what the forward handed over, unchanged}}
      %y1 = stablehlo.dynamic_slice %v1, %zero, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      stablehlo.return %y1 : tensor<1x4xf32>
    }) : (tensor<i1>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}
