// RUN: hlo-remat-opt %s --hlo-remat-partition --verify-diagnostics --split-input-file
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @unknown_name(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{policy save_only_these_names('h') of region 'block' speaks of ['h'], but no checkpoint_name in the region gives these names; the names there are: none}}
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @unknown_policy(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_dots"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_dots"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{unknown policy kind 'save_dots'; the kinds are everything_saveable,}}
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_dots"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_dots"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @policy_without_kind(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {names = "h"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {names = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{unknown policy kind 'None'}}
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {names = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {names = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @policy_field_of_wrong_type(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_only_these_names", names_which_can_be_saved = "h"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{field 'names_which_can_be_saved' of policy 'save_only_these_names' has the wrong type}}
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = "h"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @policy_of_another_process(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {key = "my_policy#0", kind = "custom"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  %y = stablehlo.exponential %s : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {key = "my_policy#0", kind = "custom"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  // expected-error @+1 {{policy 'my_policy#0' is a Python function of the process that lowered this module}}
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {key = "my_policy#0", kind = "custom"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {key = "my_policy#0", kind = "custom"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @unknown_marker(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{unknown marker 'hlo_remat.region'}}
  %out = stablehlo.composite "hlo_remat.region" %x {decomposition = @id1} : (tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @later_version(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{marker 'hlo_remat.name' has version 7, this hlo_remat knows versions up to 1}}
  %out = stablehlo.composite "hlo_remat.name" %x {decomposition = @id1, version = 7 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @impure(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %lo = stablehlo.constant dense<0.0> : tensor<f32>
  %hi = stablehlo.constant dense<1.0> : tensor<f32>
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark @+2 {{'stablehlo.rng' in region 'block' can't be computed twice, so its result is saved}}
  // expected-note @+1 {{made by}}
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

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @named_but_not_needed(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %e = stablehlo.composite "hlo_remat.enter" %x {composite_attributes = {policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %e : tensor<4xf32>
  // expected-remark @+1 {{the value named 'h' in region 'block' is not needed by the backward, so it is not saved}}
  %h = stablehlo.composite "hlo_remat.name" %s {composite_attributes = {name = "h"}, decomposition = @id1, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.cosine %e : tensor<4xf32>
  %y = stablehlo.exponential %h : tensor<4xf32>
  %o = stablehlo.composite "hlo_remat.exit" %y, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = stablehlo.multiply %o, %g : tensor<4xf32>
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %c : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "save_only_these_names", names_which_can_be_saved = ["h"]}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// -----

func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func @no_forward(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.multiply %x, %g : tensor<4xf32>
  // expected-remark @+1 {{no forward is proven to belong to this backward of region 'block', so its residuals are saved}}
  %b = stablehlo.composite "hlo_remat.bwd_enter" %z, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.multiply %b, %x : tensor<4xf32>
  %out = stablehlo.composite "hlo_remat.bwd_exit" %d, %x {composite_attributes = {num_inputs = 1 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id2, version = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}
