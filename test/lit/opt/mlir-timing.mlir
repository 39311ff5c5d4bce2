// RUN: hlo-remat-opt %s --cse --hlo-remat-strip --mlir-timing 2>&1 >/dev/null | FileCheck %s

// CHECK: Execution time report
// CHECK: CSEPass
// CHECK: Strip
// CHECK: Total
func.func @f() {
  return
}
