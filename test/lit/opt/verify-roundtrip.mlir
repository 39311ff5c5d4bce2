// RUN: hlo-remat-opt %s --verify-roundtrip | FileCheck %s
// RUN: hlo-remat-opt %s --verify-roundtrip --emit-bytecode -o %t.mlirbc
// RUN: not hlo-remat-opt %s --verify-roundtrip --mlir-use-nameloc-as-prefix 2>&1 | FileCheck %s --check-prefix=DIFFERENT
// RUN: not hlo-remat-opt %s --verify-roundtrip --mlir-pretty-debuginfo 2>&1 | FileCheck %s --check-prefix=UNREADABLE

// CHECK: stablehlo.constant dense<[1, 2, 3]>
// DIFFERENT: verify-roundtrip.mlir:0:0: error: the output, parsed again, prints differently
// DIFFERENT-NOT: module
// UNREADABLE: error:
// UNREADABLE-NOT: module
func.func @f() -> tensor<3xi32> {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32> loc("weights")
  return %0 : tensor<3xi32>
}
