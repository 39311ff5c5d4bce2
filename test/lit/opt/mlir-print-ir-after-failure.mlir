// RUN: not hlo-remat-opt %s -p 'builtin.module(cse,func.func(inline))' --mlir-print-ir-after-failure 2>&1 | FileCheck %s

// CHECK-NOT: IR Dump After CSEPass
// CHECK: IR Dump After InlinerPass Failed: inline
// CHECK: func.func @f()
// CHECK: mlir-print-ir-after-failure.mlir:7:1: error:
func.func @f() {
  return
}
