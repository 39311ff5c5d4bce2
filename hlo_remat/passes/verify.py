# SPDX-License-Identifier: Apache-2.0
"""hlo-remat-verify: see the pass."""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.passes.base import Pass
from hlo_remat.validation.verify import verify_operations


@dataclasses.dataclass(frozen=True)
class Verify(Pass):
    """Proves that the passes before it changed nothing that the module computes.

    It compares the module with what it was at the last `hlo-remat-verify`, or when it came into the
    pipeline: the results of every public function bit for bit, and its effects in their order. A
    failed proof is an error that shows the first result that differs, and the ops in which it does.
    The rewrites of the hlo-remat passes can be proven, and inlining, `cse` and `symbol-dce`; what
    folds or reorders arithmetic, as `canonicalize` does, can't.

        hlo-remat-opt --hlo-remat-pipeline --hlo-remat-verify
    """

    name = "hlo-remat-verify"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        assert diagnostics.proven is not None
        verification = verify_operations(diagnostics.proven, module.operation)
        if verification.failure is not None:
            diagnostics.all.append(verification.failure)
        else:
            diagnostics.proven = module.operation.clone()
