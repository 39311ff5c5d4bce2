// RUN: hlo-remat-opt %s --hlo-remat-partition='policy=everything_saveable' | FileCheck %s --check-prefix=EVERYTHING
// RUN: hlo-remat-opt %s --hlo-remat-partition='policy=save_only_these_names names=h' | FileCheck %s --check-prefix=NAMES

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

// The option speaks for every region, whatever its own policy.
// EVERYTHING: decisions = ["save"]
// NAMES: decisions = ["save", "recompute"]
func.func @main(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %h = stablehlo.composite "hlo_remat.name" %s {composite_attributes = {name = "h"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.cosine %h : tensor<4xf32>
  %y = stablehlo.exponential %h : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}
