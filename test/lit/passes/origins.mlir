// Backward loops that read what forward loops made: other loops, other rows, other choices. What is not
// proven to be what the region made stays saved.
//
// RUN: hlo-remat-opt %s --hlo-remat-partition --split-input-file --verify-diagnostics | FileCheck %s
// Fewer trips, of the same rows.
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
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %m = stablehlo.constant dense<2> : tensor<i32>
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
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The backward counts from 1.
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
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %four = stablehlo.constant dense<4> : tensor<i32>
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
  %w:4 = stablehlo.while(%j = %one, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %n, %j : tensor<i32>
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
// The stack of residuals is a result, too: it stays, and the backward makes its own.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
// CHECK: stablehlo.multiply %[[B]]#0, %[[B]]#2
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
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
  return %w#1, %f#2 : tensor<4xf32>, tensor<3x4xf32>
}

// -----
// The same choice: the predicate is handed over, too.
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
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %nopreds = stablehlo.constant dense<false> : tensor<3xi1>
  %zrow = stablehlo.constant dense<0.0> : tensor<4xf32>
  %lim = stablehlo.constant dense<0.5> : tensor<f32>
  %f:5 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros, %s3 = %nopreds) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xi1>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %pq = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fst = stablehlo.slice %c [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    %fs = stablehlo.reshape %fst : (tensor<1xf32>) -> tensor<f32>
    %pd = stablehlo.compare GT, %fs, %lim : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %pp = stablehlo.xor %pq, %pd : tensor<i1>
    %q:3 = "stablehlo.if"(%pp) ({
      %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
      %s = stablehlo.sine %e : tensor<4xf32>
      %r = stablehlo.cosine %e : tensor<4xf32>
      %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %o, %r, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %c, %zrow, %zrow : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %u1 = stablehlo.reshape %q#1 : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %q#2 : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u3 = stablehlo.reshape %pp : (tensor<i1>) -> tensor<1xi1>
    %t3 = stablehlo.dynamic_update_slice %s3, %u3, %i : (tensor<3xi1>, tensor<1xi1>, tensor<i32>) -> tensor<3xi1>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %q#0, %t1, %t2, %t3 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xi1>
  }
  %w:5 = stablehlo.while(%j = %zero, %cc = %g, %v1 = %f#2, %v2 = %f#3, %v3 = %f#4) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xi1>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %x3 = stablehlo.dynamic_slice %v3, %k, sizes = [1] : (tensor<3xi1>, tensor<i32>) -> tensor<1xi1>
    %pp = stablehlo.reshape %x3 : (tensor<1xi1>) -> tensor<i1>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %q = "stablehlo.if"(%pp) ({
      %b = stablehlo.composite "hlo_remat.bwd_enter" %cc, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %d = stablehlo.multiply %b, %rr : tensor<4xf32>
      %bx = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %bx : tensor<4xf32>
    }, {
      stablehlo.return %cc : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %q, %v1, %v2, %v3 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xi1>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The residuals of another loop of the same region.
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
  %h:4 = stablehlo.while(%i = %zero, %c = %f#1, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
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
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %h#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.subtract %two, %j : tensor<i32>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    // expected-remark@+1 {{what is read here is saved: it is of another trip than the region's inputs, or of another loop}}
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
// The inputs are what the carry is at the end.
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
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %f#1 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %f#1 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The region reads a carry past its inputs, and the carry changes.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:2 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["save"]
// CHECK-NEXT: stablehlo.multiply %[[B]]#0, %[[B]]#1
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %f:5 = stablehlo.while(%i = %zero, %c = %x, %a = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    // expected-remark@+1 {{this residual of region 'block' is saved: its recompute would need a value that the backward can't reach}}
    %r = stablehlo.multiply %e, %a : tensor<4xf32>
    %ax = stablehlo.add %a, %x : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %ax, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#3, %v2 = %f#4) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
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
// The stacks change places each trip.
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
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v2, %v1 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The stack is turned around between the loops.
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
  %turned = stablehlo.reverse %f#2, dims = [0] : tensor<3x4xf32>
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %turned, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// A branch decides whether the row is written.
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
    %first = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t1 = "stablehlo.if"(%first) ({
      stablehlo.return %s1 : tensor<3x4xf32>
    }, {
      %t = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
      stablehlo.return %t : tensor<3x4xf32>
    }) : (tensor<i1>) -> tensor<3x4xf32>
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
    // expected-remark@+1 {{the forward loop doesn't write it once a trip, and nothing else}}
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
// A row that was never written.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<2> : tensor<i32>
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
  %rows = stablehlo.constant dense<3> : tensor<i32>
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %rows : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// Every second row is written, and every one is read.
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
    %next = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The rows are turned by one.
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
    %last = stablehlo.compare EQ, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %j1 = stablehlo.add %j, %one : tensor<i32>
    %k = stablehlo.select %last, %zero, %j1 : tensor<i1>, tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
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

// -----
// What looks like JAX's wrapping of negative rows, and is none.
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
    %neg = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %j1 = stablehlo.add %j, %one : tensor<i32>
    %k = stablehlo.select %neg, %j1, %j : tensor<i1>, tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
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

// -----
// The counter is moved by data.
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
    %fst = stablehlo.slice %c [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    %sc = stablehlo.reshape %fst : (tensor<1xf32>) -> tensor<f32>
    %lim = stablehlo.constant dense<0.0> : tensor<f32>
    %gt = stablehlo.compare GT, %sc, %lim : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %by = stablehlo.select %gt, %one, %two : tensor<i1>, tensor<i32>
    %next = stablehlo.add %i, %by : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}
