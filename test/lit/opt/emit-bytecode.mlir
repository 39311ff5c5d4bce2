// RUN: hlo-remat-opt %s --emit-bytecode -o %t.mlirbc
// RUN: hlo-remat-opt %t.mlirbc --cse | FileCheck %s
// RUN: hlo-remat-opt %s --emit-bytecode | hlo-remat-opt --mlir-print-debuginfo | FileCheck %s --check-prefixes=CHECK,LOC

// CHECK: func.func @f()
// LOC: emit-bytecode.mlir":7:1)
func.func @f() {
  return
}
