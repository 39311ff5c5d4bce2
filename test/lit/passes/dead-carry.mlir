// RUN: hlo-remat-opt %s --hlo-remat-dead-carry --split-input-file | FileCheck %s

// The stack goes, and with it what only fed it.
// CHECK-LABEL: func.func @stack
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NOT: tensor<3x4xf32>
// CHECK: %[[R:.*]]:2 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[C:.*]] = %[[X]]) : tensor<i32>, tensor<4xf32>
// CHECK: stablehlo.compare LT, %[[I]]
// CHECK: stablehlo.sine %[[C]]
// CHECK-NOT: stablehlo.cosine
// CHECK-NOT: dynamic_update_slice
// CHECK: return %[[R]]#1
func.func @stack(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %zero, %s = %zeros, %c = %x) : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.cosine %c : tensor<4xf32>
    %row = stablehlo.reshape %d : (tensor<4xf32>) -> tensor<1x4xf32>
    %t = stablehlo.dynamic_update_slice %s, %row, %i, %zero : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %n = stablehlo.sine %c : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %n : tensor<i32>, tensor<3x4xf32>, tensor<4xf32>
  }
  return %r#2 : tensor<4xf32>
}

// -----
// A carry that nothing reads outside stays where another carry reads it.
// CHECK-LABEL: func.func @read_inside
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>, tensor<f32>
func.func @read_inside(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:4 = stablehlo.while(%i = %zero, %a = %x, %b = %x, %unread = %x) : tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %c = stablehlo.add %a, %b : tensor<f32>
    %d = stablehlo.sine %c : tensor<f32>
    %e = stablehlo.add %unread, %d : tensor<f32>
    stablehlo.return %j, %c, %d, %e : tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}

// -----
// Loops in loops, and a branch: the dead result goes through all of them.
// CHECK-LABEL: func.func @nest
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>
// CHECK: "stablehlo.if"
// CHECK: stablehlo.return %{{[^,]*}} : tensor<f32>
// CHECK: stablehlo.return %{{[^,]*}} : tensor<f32>
// CHECK: -> tensor<f32>
// CHECK-NOT: stablehlo.exponential
func.func @nest(%x: tensor<f32>, %n: tensor<i32>, %q: tensor<i1>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s:3 = stablehlo.while(%k = %zero, %c = %a, %d = %b) : tensor<i32>, tensor<f32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %t:2 = "stablehlo.if"(%q) ({
        %u = stablehlo.sine %c : tensor<f32>
        %v = stablehlo.exponential %d : tensor<f32>
        stablehlo.return %u, %v : tensor<f32>, tensor<f32>
      }, {
        stablehlo.return %c, %d : tensor<f32>, tensor<f32>
      }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
      %l = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %l, %t#0, %t#1 : tensor<i32>, tensor<f32>, tensor<f32>
    }
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s#1, %s#2 : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}

// -----
// What an op with an effect reads is needed.
// CHECK-LABEL: func.func @effect
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>
// CHECK: stablehlo.custom_call @log
func.func @effect(%x: tensor<f32>, %n: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.custom_call @log(%a) {has_side_effect = true} : (tensor<f32>) -> ()
    %c = stablehlo.sine %a : tensor<f32>
    %d = stablehlo.cosine %b : tensor<f32>
    stablehlo.return %j, %c, %d : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %r#0 : tensor<i32>
}

// -----
// Shardings stay with their results.
// CHECK-LABEL: func.func @shardings
// CHECK: stablehlo.while
// CHECK-SAME: #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"y"}]>]>
// CHECK: sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"y"}]>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"x", "y"}
// CHECK: sdy.return %{{[^,]*}} : tensor<2xf32>
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @shardings(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>, <@mesh, [{"y"}]>]>}
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %c = stablehlo.sine %a : tensor<4xf32>
    %d = stablehlo.cosine %b : tensor<4xf32>
    stablehlo.return %j, %c, %d : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  %m:2 = sdy.manual_computation(%x, %r#2) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"y"}]>] out_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"y"}]>] manual_axes={"x", "y"} (%u: tensor<2xf32>, %v: tensor<2xf32>) {
    %s = stablehlo.sine %u : tensor<2xf32>
    %t = stablehlo.cosine %v : tensor<2xf32>
    sdy.return %s, %t : tensor<2xf32>, tensor<2xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %m#1 : tensor<4xf32>
}
