// RUN: hlo-remat-opt %s --mlir-print-debuginfo | FileCheck %s
// RUN: hlo-remat-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOCAL
// RUN: hlo-remat-opt %s --mlir-pretty-debuginfo | FileCheck %s --check-prefix=PRETTY

// CHECK: } loc(#[[LOC:loc[0-9]*]])
// CHECK: #[[LOC]] = loc("{{.*}}mlir-print-debuginfo.mlir":10:1)
// LOCAL: return loc("train.py":1:2)
// LOCAL-NOT: #loc
// PRETTY: return train.py:1:2
func.func @f() {
  return loc("train.py":1:2)
}
