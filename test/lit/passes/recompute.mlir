// RUN: hlo-remat-opt %s --hlo-remat-recompute | FileCheck %s
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @keep2(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { return %a, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> }
func.func private @keep1(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) { return %a, %c : tensor<4xf32>, tensor<4xf32> }

// The slice from the input to the residual becomes a function of its own.
// CHECK-LABEL: func.func @recompute
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK: %[[R:.*]]:3 = stablehlo.composite "hlo_remat.recompute" %{{.*}}, %[[X]] {composite_attributes = {decisions = ["input"], fenced = array<i1: true>, region = "block"}, decomposition = @hlo_remat.recompute.block,
// CHECK: stablehlo.multiply %[[R]]#0, %[[R]]#2
func.func @recompute(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b:3 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %x, %c {composite_attributes = {decisions = ["input", "recompute"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @keep2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// Nothing is recomputed: the marker stays what it is, an identity.
// CHECK-LABEL: func.func @all_saved
// CHECK-NOT: hlo_remat.recompute
// CHECK: hlo_remat.bwd_enter
func.func @all_saved(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b:2 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %c {composite_attributes = {decisions = ["save"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @keep1, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#1 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// The slice starts at the saved value.
// CHECK-LABEL: func.func @from_saved
// CHECK: %[[S:.*]] = stablehlo.sine
// CHECK: stablehlo.composite "hlo_remat.recompute" %{{.*}}, %[[S]] {composite_attributes = {decisions = ["save"]
func.func @from_saved(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b:3 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %s, %c {composite_attributes = {decisions = ["save", "recompute"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @keep2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// CHECK: func.func private @hlo_remat.recompute.block(%[[CT:.*]]: tensor<4xf32>, %[[A:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %[[A]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[S]]
// CHECK-NEXT: return %[[CT]], %[[A]], %[[C]]

// CHECK: func.func private @hlo_remat.recompute.block_0(%[[CT:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[S]]
// CHECK-NEXT: return %[[CT]], %[[S]], %[[C]]
