// RUN: hlo-remat-opt %s --verify-each=false --cse | FileCheck %s
// RUN: hlo-remat-opt %s -verify-each --cse | FileCheck %s
// RUN: not hlo-remat-opt %s --verify-each=maybe 2>&1 | FileCheck %s --check-prefix=INVALID

// CHECK: func.func @f()
// INVALID: error: argument --verify-each: 'maybe' is not true, false, 1 or 0
func.func @f() {
  return
}
