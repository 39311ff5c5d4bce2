# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.passes.base import Pass


@dataclasses.dataclass(frozen=True)
class Inline(Pass):
    """(being written)."""

    name = "hlo-remat-inline"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        pass
