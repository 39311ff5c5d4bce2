// Backwards that read what branches and manual computations hand over.
//
// RUN: hlo-remat-opt %s --hlo-remat-partition --split-input-file --verify-diagnostics | FileCheck %s
// The same branch of the same choice.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
// CHECK-NEXT: stablehlo.multiply %[[B]]#0, %[[B]]#2
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %p: tensor<i1>, %q: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f:3 = "stablehlo.if"(%p) ({
    %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %o, %r, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }, {
    %z = stablehlo.constant dense<0.0> : tensor<4xf32>
    stablehlo.return %x, %z, %z : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %w = "stablehlo.if"(%p) ({
    %b = stablehlo.composite "hlo_remat.bwd_enter" %g, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %f#1 : tensor<4xf32>
    %x1 = stablehlo.composite "hlo_remat.bwd_exit" %d, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %x1 : tensor<4xf32>
  }, {
    stablehlo.return %g : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %f#0, %w : tensor<4xf32>, tensor<4xf32>
}

// -----
// Another predicate: the forward may not have run.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %p: tensor<i1>, %q: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f:3 = "stablehlo.if"(%p) ({
    %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %o, %r, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }, {
    %z = stablehlo.constant dense<0.0> : tensor<4xf32>
    stablehlo.return %x, %z, %z : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %w = "stablehlo.if"(%q) ({
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %g, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %f#1 : tensor<4xf32>
    %x1 = stablehlo.composite "hlo_remat.bwd_exit" %d, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %x1 : tensor<4xf32>
  }, {
    stablehlo.return %g : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %f#0, %w : tensor<4xf32>, tensor<4xf32>
}

// -----
// The other branch reads: there the forward handed zeros over.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>, %p: tensor<i1>, %q: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f:3 = "stablehlo.if"(%p) ({
    %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %o, %r, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }, {
    %z = stablehlo.constant dense<0.0> : tensor<4xf32>
    stablehlo.return %x, %z, %z : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %w = "stablehlo.if"(%p) ({
    stablehlo.return %g : tensor<4xf32>
  }, {
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %g, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %f#1 : tensor<4xf32>
    %x1 = stablehlo.composite "hlo_remat.bwd_exit" %d, %f#2 {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %x1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %f#0, %w : tensor<4xf32>, tensor<4xf32>
}

// -----
// Each device reads what it made itself.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
// CHECK-NEXT: stablehlo.multiply %[[B]]#0, %[[B]]#2
sdy.mesh @mesh = <["d"=4]>
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<16xf32>, %g: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %f:3 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>, <@mesh, [{"d"}]>] manual_axes={"d"} (%a: tensor<4xf32>) {
    %e = stablehlo.composite "hlo_remat.enter" %a {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %a {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    sdy.return %o, %r, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %w = sdy.manual_computation(%g, %f#1, %f#2) in_shardings=[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>, <@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>] manual_axes={"d"} (%ct: tensor<4xf32>, %rr: tensor<4xf32>, %in: tensor<4xf32>) {

    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %in {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %x1 = stablehlo.composite "hlo_remat.bwd_exit" %d, %in {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    sdy.return %x1 : tensor<4xf32>
  } : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %f#0, %w : tensor<16xf32>, tensor<16xf32>
}

// -----
// Each device reads another part of the inputs than it had.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.composite "hlo_remat.bwd_enter" %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stablehlo.multiply %[[B]], %{{.*}}
sdy.mesh @mesh = <["d"=4]>
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func @main(%x: tensor<16xf32>, %g: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %f:3 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>, <@mesh, [{"d"}]>] manual_axes={"d"} (%a: tensor<4xf32>) {
    %e = stablehlo.composite "hlo_remat.enter" %a {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.sine %e : tensor<4xf32>
    %r = stablehlo.cosine %e : tensor<4xf32>
    %o = stablehlo.composite "hlo_remat.exit" %s, %a {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    sdy.return %o, %r, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %w = sdy.manual_computation(%g, %f#1, %f#2) in_shardings=[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{"d"}]>] manual_axes={"d"} (%ct: tensor<4xf32>, %rr: tensor<4xf32>, %in: tensor<16xf32>) {
    %part = stablehlo.slice %in [0:4] : (tensor<16xf32>) -> tensor<4xf32>
    // expected-remark@+1 {{no forward is proven to belong to this backward of region}}
    %b = stablehlo.composite "hlo_remat.bwd_enter" %ct, %part {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %b, %rr : tensor<4xf32>
    %x1 = stablehlo.composite "hlo_remat.bwd_exit" %d, %part {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    sdy.return %x1 : tensor<4xf32>
  } : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %f#0, %w : tensor<16xf32>, tensor<16xf32>
}
