// RUN: hlo-remat-opt %s --cse --hlo-remat-strip --mlir-print-ir-before-all 2>&1 >/dev/null | FileCheck %s

// CHECK: IR Dump Before CSEPass: cse
// CHECK: func.func @f()
// CHECK: IR Dump Before Strip: hlo-remat-strip
// CHECK: func.func @f()
func.func @f() {
  return
}
