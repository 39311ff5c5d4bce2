// RUN: not hlo-remat-opt %s -split-input-file -verify-diagnostics 2>&1 | FileCheck %s
// RUN: not hlo-remat-opt %s -split-input-file -verify-diagnostics=only-expected 2>&1 | FileCheck %s --check-prefix=ONLY

// CHECK: [[FILE:.*verify-diagnostics-invalid.mlir]]:14:4: error: expected error "never said" was not produced
// CHECK-NEXT: // expected-error
// CHECK: [[FILE]]:20:18: error: unexpected error: 'func.call' op 'g' does not reference a valid function
// CHECK: [[FILE]]:19:4: error: expected warning "does not reference" was not produced
// CHECK: [[FILE]]:24:4: error: invalid regular expression in expected-error-re {{.*}}: missing )
// CHECK-NOT: module

// ONLY: error: expected error "never said" was not produced
// ONLY-NOT: unexpected
// ONLY: error: expected warning "does not reference" was not produced
// expected-error @below {{never said}}
func.func @not_produced() { return }

// -----

// expected-warning @below {{does not reference}}
func.func @f() { func.call @g() : () -> () return }

// -----

// expected-error-re {{a {{(}} b}}
func.func @bad_regex() { return }
