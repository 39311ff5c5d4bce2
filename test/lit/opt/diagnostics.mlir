// RUN: not hlo-remat-opt %s 2>&1 | FileCheck %s --match-full-lines --strict-whitespace

//      CHECK:{{.*}}diagnostics.mlir:9:3: error: 'func.call' op 'g' does not reference a valid function
// CHECK-NEXT:  func.call @g() : () -> ()
// CHECK-NEXT:  ^
// CHECK-NEXT:{{.*}}diagnostics.mlir:9:3: note: see current operation: "func.call"() <{callee = @g}> : () -> ()
//  CHECK-NOT:module
func.func @f() {
  func.call @g() : () -> ()
  return
}
