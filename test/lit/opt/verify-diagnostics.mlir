// RUN: hlo-remat-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// Each kind of place. A chunk that fails as expected has no output.
func.func @same_line() {
  func.call @g() : () -> () // expected-error {{'g' does not reference a valid function}}
  return
}

// -----

func.func @below() {
  // expected-error @below {{does not reference}}
  func.call @g() : () -> ()
  return
}

// -----

func.func @above() {
  func.call @g() : () -> ()
  // expected-error @above {{does not reference}}
  return
}

// -----

// expected-error @+2 {{redefinition of symbol named 'f'}}
func.func private @f() // expected-note {{see existing symbol definition here}}
func.func private @f()

// -----

// expected-error @unknown {{does not reference}}
func.func @unknown() {
  func.call @g() : () -> () loc(unknown)
  return
}

// -----

// expected-error-re @below {{op 'g{{[0-9]+}}' does {{not|never}} reference}}
func.func @regex() { func.call @g17() : () -> () return }

// -----

// CHECK: func.func @fine
func.func @fine() {
  return
}
