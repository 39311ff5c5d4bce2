// Nothing is written on an error, and what was in the file stays.
// RUN: rm -rf %t && mkdir %t
// RUN: hlo-remat-opt %s -o %t/out.mlir | FileCheck %s --check-prefix=NOTHING --allow-empty
// RUN: FileCheck %s < %t/out.mlir
// RUN: not hlo-remat-opt %s -o %t/out.mlir -p 'builtin.module(func.func(inline))' 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: FileCheck %s < %t/out.mlir
// RUN: ls -A %t | FileCheck %s --check-prefix=FILES
// RUN: not hlo-remat-opt %s -o %t/nowhere/out.mlir 2>&1 | FileCheck %s --check-prefix=UNWRITABLE
// RUN: hlo-remat-opt %s -o /dev/null

// NOTHING-NOT: module
// CHECK: module
// CHECK: func.func @f()
// ERROR: error:
// ERROR-NOT: module
// FILES: {{^out.mlir$}}
// FILES-NOT: out
// UNWRITABLE: hlo-remat-opt: error: cannot open output file '{{.*}}nowhere/out.mlir': No such file or directory
func.func @f() {
  return
}
