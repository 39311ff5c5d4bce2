// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=optimization-barrier scope=recompute' | FileCheck %s --check-prefix=BARRIER
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=call scope=operands' | FileCheck %s --check-prefix=CALLOPS
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=call scope=auto' | FileCheck %s --check-prefix=CALLOPS
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=case scope=operands' | FileCheck %s --check-prefix=CASEOPS
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=call scope=recompute' | FileCheck %s --check-prefix=CALL
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=call scope=backward' | FileCheck %s --check-prefix=CALLBWD
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=case scope=recompute' | FileCheck %s --check-prefix=CASE
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=case scope=backward' | FileCheck %s --check-prefix=CASEBWD
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=while scope=recompute' | FileCheck %s --check-prefix=WHILE
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=while scope=backward' | FileCheck %s --check-prefix=WHILEBWD
// RUN: hlo-remat-opt %s --hlo-remat-lower-recompute='strategy=none scope=auto' | FileCheck %s --check-prefix=NONE
func.func private @id1(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
func.func private @id2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }

func.func private @recompute(%g: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %s = stablehlo.sine %x : tensor<4xf32>
  %c = stablehlo.cosine %s : tensor<4xf32>
  return %g, %x, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// BARRIER-LABEL: func.func @main
// BARRIER-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// BARRIER: %[[Z:.*]] = stablehlo.multiply
// BARRIER: %[[F:.*]]:2 = stablehlo.optimization_barrier %[[Z]], %[[X]]
// BARRIER: %[[S:.*]] = stablehlo.sine %[[F]]#1
// BARRIER: %[[C:.*]] = stablehlo.cosine %[[S]]
// BARRIER: %[[D:.*]] = stablehlo.multiply %[[F]]#0, %[[C]]
// BARRIER: stablehlo.multiply %[[D]], %[[F]]#1

// A call that returns its operands stands where a barrier would.
// CALLOPS-LABEL: func.func @main
// CALLOPS-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CALLOPS: %[[Z:.*]] = stablehlo.multiply
// CALLOPS: %[[F:.*]]:2 = call @hlo_remat.fenced(%[[Z]], %[[X]]) {mhlo.frontend_attributes = {inlineable = "false"}}
// CALLOPS: %[[S:.*]] = stablehlo.sine %[[F]]#1
// CALLOPS: %[[C:.*]] = stablehlo.cosine %[[S]]
// CALLOPS: %[[D:.*]] = stablehlo.multiply %[[F]]#0, %[[C]]
// CALLOPS: stablehlo.multiply %[[D]], %[[F]]#1
// CALLOPS: func.func private @hlo_remat.fenced(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
// CALLOPS-NEXT: return %[[A]], %[[B]]

// CASEOPS-LABEL: func.func @main
// CASEOPS-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CASEOPS: %[[Z:.*]] = stablehlo.multiply
// CASEOPS: %[[F:.*]]:2 = "stablehlo.if"
// CASEOPS-NEXT: stablehlo.return %[[Z]], %[[X]]
// CASEOPS: stablehlo.sine %[[F]]#1

// The kept value need not pass the call: what a nested computation returns is copied.
// CALL-LABEL: func.func @main
// CALL-SAME: (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CALL: %[[Z:.*]] = stablehlo.multiply
// CALL: %[[R:.*]]:2 = call @hlo_remat.fenced(%[[Z]], %[[X]]) {mhlo.frontend_attributes = {inlineable = "false"}}
// CALL: %[[D:.*]] = stablehlo.multiply %[[R]]#0, %[[R]]#1
// CALL: stablehlo.multiply %[[D]], %[[X]]
// CALL: func.func private @hlo_remat.fenced
// CALL: stablehlo.sine
// CALL-NOT: stablehlo.multiply
// CALL: return

// CALLBWD-LABEL: func.func @main
// CALLBWD: %[[R:.*]] = call @hlo_remat.fenced
// CALLBWD: hlo_remat.bwd_exit" %[[R]]
// CALLBWD: func.func private @hlo_remat.fenced
// CALLBWD: stablehlo.sine
// CALLBWD: stablehlo.multiply
// CALLBWD: stablehlo.multiply
// CALLBWD: return

// The predicate is true for all data, NaN included, and comes from the cotangent.
// CASE-LABEL: func.func @main
// CASE: %[[Z:.*]] = stablehlo.multiply
// CASE: %[[E:.*]] = stablehlo.slice %[[Z]] [0:1]
// CASE: %[[I:.*]] = stablehlo.bitcast_convert %{{.*}} : (tensor<f32>) -> tensor<i32>
// CASE: %[[BIT:.*]] = stablehlo.and
// CASE: %[[P:.*]] = stablehlo.compare GE, %[[BIT]], %{{.*}}
// CASE: %[[R:.*]]:2 = "stablehlo.if"(%[[P]])
// CASE: stablehlo.sine
// CASE: stablehlo.return
// CASE: stablehlo.constant dense<0.0
// CASE: stablehlo.return
// CASE: stablehlo.multiply %[[R]]#0, %[[R]]#1

// CASEBWD-LABEL: func.func @main
// CASEBWD: %[[R:.*]] = "stablehlo.if"
// CASEBWD: stablehlo.sine
// CASEBWD: stablehlo.multiply
// CASEBWD: hlo_remat.bwd_exit" %[[R]]

// The barrier in the body holds the counter too, or XLA would hoist what is invariant.
// WHILE-LABEL: func.func @main
// WHILE: stablehlo.while
// WHILE: stablehlo.optimization_barrier %{{.*}}, %{{.*}}, %{{.*}} : tensor<i32>, tensor<4xf32>, tensor<4xf32>
// WHILE: stablehlo.sine

// WHILEBWD-LABEL: func.func @main
// WHILEBWD: stablehlo.while
// WHILEBWD: stablehlo.sine
// WHILEBWD: stablehlo.multiply
// WHILEBWD: stablehlo.return

// NONE-LABEL: func.func @main
// NONE-NOT: optimization_barrier
// NONE: stablehlo.sine
// NONE: stablehlo.sine
// NONE-NOT: optimization_barrier
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
