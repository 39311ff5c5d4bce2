// RUN: hlo-remat-opt %s --hlo-remat-pin-inputs='min-bytes=48 jaxlib=0.12.0' | FileCheck %s
// RUN: hlo-remat-opt %s --hlo-remat-pin-inputs='min-bytes=48 jaxlib=0.10.2' | FileCheck %s --check-prefix=CALL
func.func private @id(%a: tensor<12xf32>, %b: tensor<2xui64>) -> (tensor<12xf32>, tensor<2xui64>) { return %a, %b : tensor<12xf32>, tensor<2xui64> }
func.func private @id1(%a: tensor<12xf32>, %b: tensor<12xf32>, %c: tensor<2xui64>) -> tensor<12xf32> { return %a : tensor<12xf32> }

// The random bits are large and come from the key alone, which so waits for what the region works on.
// CHECK-LABEL: func.func @dropout
// CHECK-SAME: (%[[X:.*]]: tensor<12xf32>, %[[KEY:.*]]: tensor<2xui64>)
// CHECK: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK: %[[P:.*]]:2 = stablehlo.optimization_barrier %[[KEY]], %[[Y]]
// CHECK: stablehlo.rng_bit_generator %[[P]]#0
// CHECK: stablehlo.multiply %[[P]]#1
// CHECK: hlo_remat.exit" %{{.*}}, %[[Y]], %[[KEY]]
// CALL-LABEL: func.func @dropout
// CALL: %[[P:.*]]:2 = call @hlo_remat.fenced
// CALL: stablehlo.rng_bit_generator %[[P]]#0
func.func @dropout(%x: tensor<12xf32>, %key: tensor<2xui64>) -> tensor<12xf32> {
  %y = stablehlo.sine %x : tensor<12xf32>
  %e:2 = stablehlo.composite "hlo_remat.enter" %y, %key {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id, version = 1 : i32} : (tensor<12xf32>, tensor<2xui64>) -> (tensor<12xf32>, tensor<2xui64>)
  %state, %bits = stablehlo.rng_bit_generator %e#1, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<12xui32>)
  %f = stablehlo.convert %bits : (tensor<12xui32>) -> tensor<12xf32>
  %m = stablehlo.multiply %e#0, %f : tensor<12xf32>
  %o = stablehlo.composite "hlo_remat.exit" %m, %y, %key {composite_attributes = {num_inputs = 2 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<12xf32>, tensor<12xf32>, tensor<2xui64>) -> tensor<12xf32>
  return %o : tensor<12xf32>
}

// What is made of both, and small things, wait for nothing more.
// CHECK-LABEL: func.func @no_need
// CHECK-NOT: optimization_barrier
func.func @no_need(%x: tensor<12xf32>, %key: tensor<2xui64>) -> tensor<12xf32> {
  %y = stablehlo.sine %x : tensor<12xf32>
  %e:2 = stablehlo.composite "hlo_remat.enter" %y, %key {composite_attributes = {policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id, version = 1 : i32} : (tensor<12xf32>, tensor<2xui64>) -> (tensor<12xf32>, tensor<2xui64>)
  %one = stablehlo.slice %e#1 [0:1] : (tensor<2xui64>) -> tensor<1xui64>
  %f = stablehlo.convert %one : (tensor<1xui64>) -> tensor<1xf32>
  %m = stablehlo.concatenate %e#0, %f, dim = 0 : (tensor<12xf32>, tensor<1xf32>) -> tensor<13xf32>
  %s = stablehlo.slice %m [1:13] : (tensor<13xf32>) -> tensor<12xf32>
  %o = stablehlo.composite "hlo_remat.exit" %s, %y, %key {composite_attributes = {num_inputs = 2 : i64, policy = {kind = "nothing_saveable"}, prevent_cse = true, region = "block"}, decomposition = @id1, version = 1 : i32} : (tensor<12xf32>, tensor<12xf32>, tensor<2xui64>) -> tensor<12xf32>
  return %o : tensor<12xf32>
}
