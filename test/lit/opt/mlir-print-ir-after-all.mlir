// RUN: hlo-remat-opt %s --cse --hlo-remat-strip --mlir-print-ir-after-all --mlir-print-debuginfo 2>&1 >/dev/null | FileCheck %s

// CHECK: IR Dump After CSEPass: cse
// CHECK: func.func @f()
// CHECK: mlir-print-ir-after-all.mlir":7:1)
// CHECK: IR Dump After Strip: hlo-remat-strip
func.func @f() {
  return
}
