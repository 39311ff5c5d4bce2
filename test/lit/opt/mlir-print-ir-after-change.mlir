// RUN: hlo-remat-opt %s --cse --symbol-dce --mlir-print-ir-after-change 2>&1 >/dev/null | FileCheck %s

// CHECK-NOT: IR Dump After CSEPass
// CHECK: IR Dump After SymbolDCEPass: symbol-dce
// CHECK-NOT: func.func
func.func private @f() {
  return
}
