// No abbreviations, one input, no traceback.
// RUN: not hlo-remat-opt %s --emit-byte 2>&1 | FileCheck %s --check-prefix=ABBREVIATED
// RUN: not hlo-remat-opt %s %s 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not hlo-remat-opt %t.nowhere 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: hlo-remat-opt --mlir-disable-threading %s

// ABBREVIATED: hlo-remat-opt: error: unrecognized arguments: --emit-byte
// TWO: hlo-remat-opt: error: unrecognized arguments:
// MISSING: {{^}}hlo-remat-opt: error: cannot open input file '{{.*}}nowhere': No such file or directory
func.func private @f()
