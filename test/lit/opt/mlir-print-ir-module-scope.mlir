// RUN: hlo-remat-opt %s -p 'builtin.module(func.func(cse))' --mlir-print-ir-after-all --mlir-print-ir-module-scope 2>&1 >/dev/null | FileCheck %s

// CHECK: IR Dump After CSEPass: cse ('func.func' operation: @f)
// CHECK-NEXT: module
// CHECK: func.func @f()
// CHECK: func.func @g()
func.func @f() {
  return
}
func.func @g() {
  return
}
