# RUN: %PYTHON %s > %t.mlirbc
# RUN: hlo-remat-opt %t.mlirbc | FileCheck %s
# RUN: hlo-remat-opt < %t.mlirbc | FileCheck %s
# RUN: %PYTHON %s truncated | not hlo-remat-opt 2>&1 | FileCheck %s --check-prefix=TRUNCATED

# CHECK: stablehlo.tanh %arg0 : tensor<2xf32>
# TRUNCATED: error: failed to deserialize portable artifact using StableHLO_v
# TRUNCATED-NOT: Traceback

import sys

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat._compat import make_context

MODULE = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
module = ir.Module.parse(MODULE, make_context())
artifact = stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version())
sys.stdout.buffer.write(artifact[:70] if "truncated" in sys.argv else artifact)
