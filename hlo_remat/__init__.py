# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation for JAX training steps, as passes over StableHLO."""

import importlib
from typing import TYPE_CHECKING, Any

from hlo_remat.errors import BudgetError as BudgetError
from hlo_remat.errors import DiagnosticError as DiagnosticError
from hlo_remat.errors import HloRematError as HloRematError
from hlo_remat.errors import PipelineError as PipelineError
from hlo_remat.errors import UnknownNameError as UnknownNameError
from hlo_remat.errors import VerificationError as VerificationError

if TYPE_CHECKING:
    from hlo_remat._apply import apply as apply
    from hlo_remat.budget.entry import frontier as frontier
    from hlo_remat.budget.entry import plan as plan
    from hlo_remat.budget.plan import Plan as Plan
    from hlo_remat.frontend.checkpoint import checkpoint as checkpoint
    from hlo_remat.frontend.checkpoint import checkpoint_name as checkpoint_name
    from hlo_remat.frontend.checkpoint import remat as remat
    from hlo_remat.frontend.policies import checkpoint_policies as checkpoint_policies
    from hlo_remat.frontend.residuals import print_saved_residuals as print_saved_residuals
    from hlo_remat.frontend.residuals import saved_residuals as saved_residuals
    from hlo_remat.validation.verify import Verification as Verification
    from hlo_remat.validation.verify import verify as verify

# What needs jax or jaxlib is imported on first use: hlo-remat-opt starts without jax, the planner
# without either.
_LAZY = {
    "Plan": "hlo_remat.budget.plan",
    "Verification": "hlo_remat.validation.verify",
    "apply": "hlo_remat._apply",
    "checkpoint": "hlo_remat.frontend.checkpoint",
    "checkpoint_name": "hlo_remat.frontend.checkpoint",
    "checkpoint_policies": "hlo_remat.frontend.policies",
    "frontier": "hlo_remat.budget.entry",
    "plan": "hlo_remat.budget.entry",
    "print_saved_residuals": "hlo_remat.frontend.residuals",
    "remat": "hlo_remat.frontend.checkpoint",
    "saved_residuals": "hlo_remat.frontend.residuals",
    "verify": "hlo_remat.validation.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hlo_remat' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
