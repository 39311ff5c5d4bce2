// RUN: hlo-remat-opt %s --mlir-print-op-generic | FileCheck %s

// CHECK: "builtin.module"() ({
// CHECK: "func.return"() : () -> ()
func.func @f() {
  return
}
