// RUN: hlo-remat-opt --list-passes | FileCheck %s

// CHECK: --hlo-remat-inline {{ +[A-Z(]}}
// CHECK: --hlo-remat-strip
// CHECK: native passes:
// CHECK-DAG: --canonicalize
// CHECK-DAG: --stablehlo-legalize-composite-to-call
