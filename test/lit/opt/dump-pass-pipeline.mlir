// RUN: hlo-remat-opt %s --cse -hlo-remat-strip --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s

// CHECK: Pass Manager with 2 passes:
// CHECK-NEXT: builtin.module(cse,hlo-remat-strip)
func.func private @f()
