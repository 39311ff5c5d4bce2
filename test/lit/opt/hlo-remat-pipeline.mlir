// A named pipeline stands for its passes and hands its options on to them.
// RUN: hlo-remat-opt %s --hlo-remat-pipeline='policy=dots_saveable strategy=none target=gpu' --dump-pass-pipeline 2>&1 | FileCheck %s
// RUN: not hlo-remat-opt %s --hlo-remat-pipeline='strategy=nope' 2>&1 | FileCheck %s --check-prefix=INVALID

// CHECK: builtin.module(hlo-remat-inline,hlo-remat-partition{policy=dots_saveable},hlo-remat-recompute,hlo-remat-lower-recompute{strategy=none target=gpu},hlo-remat-pin-inputs{target=gpu},hlo-remat-strip,symbol-dce,hlo-remat-dead-carry,hlo-remat-pin-buffers{target=gpu})
// CHECK: func.func @f()
// CHECK-NOT: @unused
// INVALID: error: for the --strategy option: 'nope' is not one of auto,
func.func @f() {
  return
}
func.func private @unused() {
  return
}
