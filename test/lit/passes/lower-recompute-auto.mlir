// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='target=cpu jaxlib=0.12.0' | FileCheck %s --check-prefix=BARRIER
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='target=cpu jaxlib=0.11.1' | FileCheck %s --check-prefix=BARRIER
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='target=cpu jaxlib=0.11.0' | FileCheck %s --check-prefix=CALL
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='target=gpu jaxlib=0.10.2' | FileCheck %s --check-prefix=BARRIER
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func private @recompute(%g: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %s = stablehlo.sine %x : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  return %g, %x, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What auto takes depends on the target and XLA's version.
// BARRIER-LABEL: func.func @main
// BARRIER: stablehlo.optimization_barrier
// CALL-LABEL: func.func @main
// CALL: call @hlo_remat.fenced
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b:3 = stablehlo.composite "hlo_remat.recompute" %z, %x {composite_attributes = {decisions = ["input"], fenced = array<i1: true>, region = "block"}, decomposition = @recompute, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d1 = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %d = stablehlo.multiply %d1, %b#1 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// A region with prevent_cse = false gets no fence from any strategy.
// BARRIER-LABEL: func.func @prevent_cse_false
// BARRIER-NOT: optimization_barrier
// BARRIER: return
// CALL-LABEL: func.func @prevent_cse_false
// CALL-NOT: call @hlo_remat.fenced
// CALL: return
func.func @prevent_cse_false(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b:3 = stablehlo.composite "hlo_remat.recompute" %z, %x {composite_attributes = {decisions = ["input"], fenced = array<i1: false>, region = "block"}, decomposition = @recompute, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d1 = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %d = stablehlo.multiply %d1, %b#1 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}
