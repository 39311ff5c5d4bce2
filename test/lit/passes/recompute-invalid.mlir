// RUN: hlo-remat-opt %s --hlo-remat-recompute --verify-diagnostics --split-input-file
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @keep2(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { return %a, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> }
func.func private @keep1(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) { return %a, %c : tensor<4xf32>, tensor<4xf32> }

func.func @offload(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{region 'block' offloads a value of type tensor<4xf32>, which this version of hlo_remat can't do}}
  %b:3 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %x, %c {composite_attributes = {decisions = ["input", "offload"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @keep2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @keep2(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { return %a, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> }
func.func private @keep1(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) { return %a, %c : tensor<4xf32>, tensor<4xf32> }

func.func @prevent_cse(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{'prevent_cse' has 2 entries for 1 inputs}}
  %b:3 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %x, %c {composite_attributes = {decisions = ["input", "recompute"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = array<i1: true, false>, region = "block"}, decomposition = @keep2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @keep2(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { return %a, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> }
func.func private @keep1(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) { return %a, %c : tensor<4xf32>, tensor<4xf32> }

func.func @decision(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{'keep' is not a decision; the decisions are input, save, recompute, offload}}
  %b:3 = stablehlo.composite "hlo_remat.bwd_enter" %z, %x, %x, %c {composite_attributes = {decisions = ["input", "keep"], num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @keep2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = stablehlo.multiply %b#0, %b#2 : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}
