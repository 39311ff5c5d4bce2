// RUN: hlo-remat-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s
// RUN: hlo-remat-opt %s --mlir-elide-resource-strings-if-larger=4 | FileCheck %s --check-prefix=RESOURCE
// RUN: not hlo-remat-opt %s --mlir-elide-elementsattrs-if-larger=-1 2>&1 | FileCheck %s --check-prefix=INVALID

// CHECK: dense_resource<__elided__> : tensor<3xi32>
// RESOURCE: dense<[1, 2, 3]>
// RESOURCE-NOT: 0x04000000
// INVALID: error: argument --mlir-elide-elementsattrs-if-larger: '-1' is not a number of elements
func.func @f() -> (tensor<3xi32>, tensor<2xi32>) {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %1 = stablehlo.constant dense_resource<blob> : tensor<2xi32>
  return %0, %1 : tensor<3xi32>, tensor<2xi32>
}
{-#
  dialect_resources: { builtin: { blob: "0x040000000100000002000000" } }
#-}
