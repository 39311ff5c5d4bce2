// The flags make up a pipeline in the order in which they are given.
// RUN: hlo-remat-opt %s --symbol-dce -canonicalize='max-iterations=2 top-down=false' --hlo-remat-strip --stablehlo-legalize-composite-to-call --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s
// RUN: not hlo-remat-opt %s --canonicalize='nope=2' 2>&1 | FileCheck %s --check-prefix=INVALID

// CHECK: builtin.module(symbol-dce,canonicalize{max-iterations=2 top-down=false},hlo-remat-strip,func.func(stablehlo-legalize-composite-to-call))

// INVALID: 1:16: error: <Pass-Options-Parser>: no such option nope: failed to add `canonicalize` with options `nope=2`
func.func private @f()
