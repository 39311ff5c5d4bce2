// RUN: hlo-remat-opt %s --allow-unregistered-dialect | FileCheck %s
// RUN: not hlo-remat-opt %s 2>&1 | FileCheck %s --check-prefix=REFUSED

// CHECK: "mine.op"() : () -> ()
// REFUSED: allow-unregistered-dialect.mlir:6:10: error: operation being parsed with an unregistered dialect
"mine.op"() : () -> ()
