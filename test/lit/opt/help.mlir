// RUN: hlo-remat-opt --help | FileCheck %s
// RUN: hlo-remat-opt -h | FileCheck %s

// CHECK: usage: hlo-remat-opt
// CHECK: --pass-pipeline
// CHECK: --mlir-timing
// CHECK: --hlo-remat-partition
// CHECK: --canonicalize
