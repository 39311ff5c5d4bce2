// Backward loops that read rows by counters of other loops, or by what wraps, and choices of other trips.
// What is not proven to be what the region made stays saved.
//
// RUN: hlo-remat-opt %s --hlo-remat-partition --split-input-file --verify-diagnostics | FileCheck %s
// The residuals are read at the counter of the loop around.
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
  %w:4 = stablehlo.while(%k = %zero, %gc = %g, %a1 = %f#2, %a2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
  %y:5 = stablehlo.while(%j = %zero, %ct = %gc, %v1 = %a1, %v2 = %a2, %kk = %k) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
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
    stablehlo.return %next, %bx, %v1, %v2, %kk : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  }
    %next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %next, %y#1, %a1, %a2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The same, carried through the inner loop.
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
  %w:4 = stablehlo.while(%k = %zero, %gc = %g, %a1 = %f#2, %a2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
  %y:5 = stablehlo.while(%j = %zero, %ct = %gc, %v1 = %a1, %v2 = %a2, %kk = %k) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %kk, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2, %kk : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  }
    %next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %next, %y#1, %a1, %a2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The inputs are read at the counter of the loop around.
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
  %w:4 = stablehlo.while(%k = %zero, %gc = %g, %a1 = %f#2, %a2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
  %y:5 = stablehlo.while(%j = %zero, %ct = %gc, %v1 = %a1, %v2 = %a2, %kk = %k) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %x1 = stablehlo.dynamic_slice %v1, %j, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
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
    stablehlo.return %next, %bx, %v1, %v2, %kk : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i32>
  }
    %next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %next, %y#1, %a1, %a2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The forward writes at the counter of the loop around: the same row each trip.
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
  %ff:4 = stablehlo.while(%oi = %zero, %oc = %x, %os1 = %zeros, %os2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %oi, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
  %f:4 = stablehlo.while(%i = %zero, %c = %oc, %s1 = %os1, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %oi, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }

  %w:4 = stablehlo.while(%j = %zero, %ct = %f#1, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
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
    %next = stablehlo.add %oi, %one : tensor<i32>
    stablehlo.return %next, %w#1, %f#2, %f#3 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %ff#1 : tensor<4xf32>
}

// -----
// A row through a type that only holds 0 and 1.
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
    %q = stablehlo.convert %j : (tensor<i32>) -> tensor<i1>
    %k = stablehlo.convert %q : (tensor<i1>) -> tensor<i32>
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
// A row through a type in which it wraps.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<6> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<6x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<6x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<6x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %q = stablehlo.convert %j : (tensor<i32>) -> tensor<ui2>
    %k = stablehlo.convert %q : (tensor<ui2>) -> tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<6x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<6x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// A sum that wraps.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<60> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<60x4xf32>
  %f:4 = stablehlo.while(%i = %zero, %c = %x, %s1 = %zeros, %s2 = %zeros) : tensor<i32>, tensor<4xf32>, tensor<60x4xf32>, tensor<60x4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %e = stablehlo.composite "hlo_remat.enter" %c {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %c {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u1 = stablehlo.reshape %r : (tensor<4xf32>) -> tensor<1x4xf32>
    %t1 = stablehlo.dynamic_update_slice %s1, %u1, %i, %zero : (tensor<60x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<60x4xf32>
    %u2 = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<1x4xf32>
    %t2 = stablehlo.dynamic_update_slice %s2, %u2, %i, %zero : (tensor<60x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<60x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %o, %t1, %t2 : tensor<i32>, tensor<4xf32>, tensor<60x4xf32>, tensor<60x4xf32>
  }
  %w:4 = stablehlo.while(%j = %zero, %ct = %g, %v1 = %f#2, %v2 = %f#3) : tensor<i32>, tensor<4xf32>, tensor<60x4xf32>, tensor<60x4xf32>
  cond {
    %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %q = stablehlo.convert %j : (tensor<i32>) -> tensor<i8>
    %h = stablehlo.constant dense<100> : tensor<i8>
    %q2 = stablehlo.add %q, %h : tensor<i8>
    %k2 = stablehlo.convert %q2 : (tensor<i8>) -> tensor<i32>
    %h2 = stablehlo.constant dense<100> : tensor<i32>
    %k = stablehlo.subtract %k2, %h2 : tensor<i32>
    // expected-remark@+1 {{the rows that are read aren't proven to be those that were written}}
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<60x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %j, %zero, sizes = [1, 4] : (tensor<60x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %by = stablehlo.composite "hlo_remat.bwd_exit" %d, %cin {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %bx = stablehlo.add %by, %cin : tensor<4xf32>
    %next = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next, %bx, %v1, %v2 : tensor<i32>, tensor<4xf32>, tensor<60x4xf32>, tensor<60x4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// -----
// The choice of another trip.
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
    %x3 = stablehlo.dynamic_slice %v3, %j, sizes = [1] : (tensor<3xi1>, tensor<i32>) -> tensor<1xi1>
    %pp = stablehlo.reshape %x3 : (tensor<1xi1>) -> tensor<i1>
    %x1 = stablehlo.dynamic_slice %v1, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %rr = stablehlo.reshape %x1 : (tensor<1x4xf32>) -> tensor<4xf32>
    %x2 = stablehlo.dynamic_slice %v2, %k, %zero, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %cin = stablehlo.reshape %x2 : (tensor<1x4xf32>) -> tensor<4xf32>
    %q = "stablehlo.if"(%pp) ({
      // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
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
