# SPDX-License-Identifier: Apache-2.0
"""The exceptions that hlo_remat raises for its users.

Anything else that escapes from the package is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_remat.budget.plan import Plan as BudgetPlan
    from hlo_remat.diagnostics import Diagnostic
    from hlo_remat.validation.verify import Verification


class HloRematError(Exception):
    """Base class of every error that hlo_remat raises on purpose."""


class PipelineError(HloRematError, ValueError):
    """A pass pipeline that can't be read: unknown pass, bad option, wrong syntax."""


class DiagnosticError(HloRematError, ValueError):
    """A module that can't be read, verified or rewritten; `diagnostics` says why.

    The message is the diagnostics as text, in `file:line:col: error: ...` form.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in diagnostics))


class VerificationError(HloRematError):
    """A rewrite that is not proven to compute the same; `verification` says where the proof fails.

    It is a fault of hlo_remat, in a pass or in the proof, and not of the program.
    """

    def __init__(self, verification: Verification):
        self.verification = verification
        super().__init__(
            f"{verification}\nThe program is unchanged. This is a fault of hlo_remat: please "
            "report it. apply(..., verify=False) goes on without the proof."
        )


class UnknownNameError(HloRematError, ValueError):
    """A policy speaks of a name that no `checkpoint_name` in its region gives."""


class GraphError(HloRematError, ValueError):
    """A graph that the planner can't read, or that is no program."""


class PlanError(HloRematError, ValueError):
    """A plan that its graph can't run."""


class BudgetError(HloRematError):
    """A memory budget that no plan was found for.

    - `budget_bytes`: what was asked for.
    - `is_proven`: whether no plan can exist; else none was found.
    - `minimum_bytes`: what a plan needs at least, because of `minimum_op`.
    - `smallest`: the plan of least memory that was found, for `apply(x, plan=error.smallest)`.
    """

    def __init__(self, budget_bytes: int, is_proven: bool, smallest: BudgetPlan):
        from hlo_remat.budget.plan import size

        self.budget_bytes = budget_bytes
        self.is_proven = is_proven
        self.smallest = smallest
        self.minimum_bytes = smallest.minimum_bytes
        self.minimum_op = smallest.minimum_op
        verdict = "no plan fits" if is_proven else "no plan was found that fits"
        certainty = (
            "That is proven."
            if is_proven
            else "That isn't proven: one may exist between the two numbers."
        )
        super().__init__(
            f"{verdict} the memory budget of {size(budget_bytes)}.\n"
            f"  the smallest plan found takes {size(smallest.memory_bytes)}\n"
            f"  any plan takes at least {size(self.minimum_bytes)}, for {self.minimum_op}; of that "
            f"{size(smallest.fixed_bytes)} are arguments and outputs\n"
            f"{certainty} Raise the budget, make the step smaller (batch, sequence), or take the "
            'smallest plan: memory_budget="min".'
        )
