// RUN: hlo-remat-opt %s -split-input-file | FileCheck %s
// RUN: hlo-remat-opt %s --split-input-file='// %%%%' --output-split-marker='// next' | FileCheck %s --check-prefix=MARKER
// RUN: not hlo-remat-opt %s -split-input-file -p 'builtin.module(func.func(inline))' 2>&1 | FileCheck %s --check-prefix=LINES
// RUN: not hlo-remat-opt %s -split-input-file -emit-bytecode 2>&1 | FileCheck %s --check-prefix=BYTECODE

// BYTECODE: hlo-remat-opt: error: '--emit-bytecode' can't be used with '--split-input-file'

// A marker inside a line is not a marker: // -----
// CHECK: module {
// CHECK-NEXT: func.func @f()
// CHECK: {{^// -----$}}
// CHECK-NEXT: module {
// CHECK-NEXT: func.func @f()
// CHECK-NOT: // -----
// MARKER: @f
// MARKER: // next
// MARKER: @f
// LINES: split-input-file.mlir:21:1: error:
// LINES: split-input-file.mlir:28:1: error:
// LINES-NOT: module
func.func @f() {
  return
}
// -----
// The next line is a marker for the second RUN line only, the one above for the others.
// %%

func.func @f() {
  return
}
