// RUN: not hlo-remat-opt %s -p 'cse' 2>&1 | FileCheck %s --check-prefix=ANCHOR
// RUN: not hlo-remat-opt %s -p 'builtin.module(cse,nope)' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not hlo-remat-opt %s -p 'builtin.module(hlo-remat-strip{nope=1})' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not hlo-remat-opt %s -p 'builtin.module(canonicalize{max-iterations=x})' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not hlo-remat-opt %s --cse -p 'builtin.module(cse)' 2>&1 | FileCheck %s --check-prefix=BOTH

// ANCHOR: 1:1: error: expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'

// NAME: MLIR Textual PassPipeline Parser:1:20: error: 'nope' does not refer to a registered pass or pass pipeline
// NAME-NEXT: {{^}}builtin.module(cse,nope)
// NAME-NEXT: {{^                   \^$}}

// OPTION: 1:32: error: no such option nope; the options of 'hlo-remat-strip' are: none
// OPTION-NEXT: {{^}}builtin.module(hlo-remat-strip{nope=1})
// OPTION-NEXT: {{^                               \^$}}

// VALUE: for the --max-iterations option: 'x' value invalid
// VALUE-NEXT: 1:16: error: failed to add `canonicalize` with options `max-iterations=x`

// BOTH: hlo-remat-opt: error: '--pass-pipeline' can't be used with individual pass flags
