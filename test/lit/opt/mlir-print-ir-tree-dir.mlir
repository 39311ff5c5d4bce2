// RUN: rm -rf %t
// RUN: hlo-remat-opt %s --cse --hlo-remat-strip --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t
// RUN: FileCheck %s < %t/builtin_module_no-symbol-name/0_cse.mlir
// RUN: FileCheck %s < %t/builtin_module_no-symbol-name/1_hlo-remat-strip.mlir

// CHECK: func.func @f()
func.func @f() {
  return
}
