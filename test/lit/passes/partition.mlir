// RUN: hlo-remat-opt %s --hlo-remat-partition | FileCheck %s
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

// The residual is recomputed from the region's input.
// CHECK-LABEL: func.func @nothing
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}})
// CHECK: %[[C:.*]] = stablehlo.cosine
// CHECK: %[[B:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %[[X]], %[[X]], %[[C]] {composite_attributes = {decisions = ["input", "recompute"]
// CHECK: stablehlo.multiply %[[B]]#0, %[[B]]#2
func.func @nothing(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// The residual itself is saved.
// CHECK-LABEL: func.func @everything
// CHECK: %[[C:.*]] = stablehlo.cosine
// CHECK: %[[B:.*]]:2 = stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %[[C]] {composite_attributes = {decisions = ["save"]
// CHECK: stablehlo.multiply %[[B]]#0, %[[B]]#1
func.func @everything(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "everything_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "everything_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "everything_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "everything_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// A name is an alias: saving it saves the value itself, and the rest is recomputed from there.
// CHECK-LABEL: func.func @only_names
// CHECK: %[[S:.*]] = stablehlo.sine
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %[[S]], %{{.*}} {composite_attributes = {decisions = ["save", "recompute"]
func.func @only_names(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %h = stablehlo.composite "hlo_remat.name" %s {composite_attributes = {name = "h"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.cosine %h : tensor<4xf32>
  %y = stablehlo.exponential %h : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// The named value is not saved, but everything else may be.
// CHECK-LABEL: func.func @except_names
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["save"]
func.func @except_names(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_anything_except_these_names", names_not_to_save = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %h = stablehlo.composite "hlo_remat.name" %s {composite_attributes = {name = "h"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.cosine %h : tensor<4xf32>
  %y = stablehlo.exponential %h : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_anything_except_these_names", names_not_to_save = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_anything_except_these_names", names_not_to_save = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_anything_except_these_names", names_not_to_save = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// The region has no backward here: nothing to decide.
// CHECK-LABEL: func.func @forward_only
// CHECK-NOT: decisions
// CHECK: return
func.func @forward_only(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %o : tensor<4xf32>
}

// What can't be computed twice is saved whatever the policy.
// CHECK-LABEL: func.func @impure
// CHECK: %[[R:.*]] = stablehlo.rng
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %{{.*}}, %[[R]], %{{.*}} {composite_attributes = {decisions = ["input", "save", "recompute"]
func.func @impure(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %lo = stablehlo.constant dense<0.0> : tensor<f32>
  %hi = stablehlo.constant dense<1.0> : tensor<f32>
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %r = stablehlo.rng %lo, %hi, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %s = stablehlo.add %e, %r : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// Constants are cloned, not saved.
// CHECK-LABEL: func.func @constants
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" {{.*}}decisions = ["input", "recompute"]
func.func @constants(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %k = stablehlo.constant dense<2.0> : tensor<4xf32>
  %m = stablehlo.multiply %e, %k : tensor<4xf32>
  %s = stablehlo.sine %m : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// The inner region's input is what the outer one recomputes for it; the inner residual is not.
// CHECK-LABEL: func.func @nested
// CHECK: %[[A:.*]] = stablehlo.sine
// CHECK: %[[C:.*]] = stablehlo.cosine
// CHECK: %[[O:.*]]:3 = stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %{{.*}}, %[[A]] {composite_attributes = {decisions = ["input", "recompute"]
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" %[[O]]#0, %[[A]], %[[O]]#2, %[[C]] {composite_attributes = {decisions = ["input", "recompute"]
func.func @nested(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "outer"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %a = stablehlo.sine %e : tensor<4xf32>
  %ie = stablehlo.composite "hlo_remat.enter" %a {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "inner"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %is = stablehlo.tanh %ie : tensor<4xf32>
  %ic = stablehlo.cosine %is : tensor<4xf32>
  %iy = stablehlo.exponential %is : tensor<4xf32>
  %io = stablehlo.composite "hlo_remat.exit" %iy, %a {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "inner"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %io, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "outer"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "outer"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %ib = stablehlo.composite "hlo_remat.bwd_enter" %b, %a {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "inner"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %id = stablehlo.multiply %ib, %ic : tensor<4xf32>
  %ix = stablehlo.composite "hlo_remat.bwd_exit" %id, %a {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "inner"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %ix, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "outer"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// Two regions with the same input and label: their backwards come in reverse order.
// CHECK-LABEL: func.func @same_inputs
// CHECK: %[[S:.*]] = stablehlo.sine
// CHECK: %[[C:.*]] = stablehlo.cosine
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %{{.*}}, %[[C]]
// CHECK: stablehlo.composite "hlo_remat.bwd_enter" %{{.*}}, %{{.*}}, %{{.*}}, %[[S]]
func.func @same_inputs(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e2 = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s2 = stablehlo.cosine %e2 : tensor<4xf32>
  %y2 = stablehlo.exponential %s2 : tensor<4xf32>
  %o2 = stablehlo.composite "hlo_remat.exit" %y2, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %o2 : tensor<4xf32>
  %b2 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d2 = stablehlo.multiply %b2, %s2 : tensor<4xf32>
  %r2 = stablehlo.composite "hlo_remat.bwd_exit" %d2, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %s : tensor<4xf32>
  %r = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "f"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %out = stablehlo.add %r, %r2 : tensor<4xf32>
  return %out : tensor<4xf32>
}
