// RUN: hlo-remat-opt < %s | FileCheck %s
// RUN: cat %s | hlo-remat-opt - | FileCheck %s
// RUN: cat %s | not hlo-remat-opt --pass-pipeline='builtin.module(func.func(inline))' 2>&1 | FileCheck %s --check-prefix=ERROR

// CHECK: func.func @f()
// ERROR: <stdin>:7:1: error: 'func.func' op {{.*}}does not define a symbol table
func.func @f() {
  return
}
