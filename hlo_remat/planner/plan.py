# SPDX-License-Identifier: Apache-2.0
"""What a solver returns: what runs again and when, what that costs, and how good it is at least."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

from hlo_remat.planner.simulate import Recompute


class Status(enum.Enum):
    """How a solve ended; the value is the message."""

    OPTIMAL = "optimal: no plan that fits costs less"
    FEASIBLE = "fits the budget; the lower bound says how much cheaper another plan could be"
    IMPOSSIBLE = "no plan can fit, which is proven; raise the budget, at least to the minimum"
    NOT_FOUND = "no plan was found, though one may exist; raise the budget or the time limit"

    @property
    def has_plan(self) -> bool:
        return self in (Status.OPTIMAL, Status.FEASIBLE)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan for a graph and a budget.

    - `recomputes`: the runs on top of the program's own, in order. Everything else is kept.
    - `peak_bytes`, `peak_op`: most bytes live, and the name of the op at which they are.
    - `live`: (name, bytes) of the values live there, largest first.
    - `extra_cost`, `extra_cost_fraction`: of the further runs, in the unit of `Op.cost` and of one
      run of the program.
    - `lower_bound`, `lower_bound_fraction`: no plan within the budget costs less; None: unknown.
    - `structural_minimum_bytes`, `structural_minimum_op`: no plan needs less, because of that op.
    - `solver`, `seconds`: what found it, and how long the whole solve took.

    Where the status has no plan, the rest is the plan of least memory that was found.
    """

    budget_bytes: int
    recomputes: tuple[Recompute, ...]
    peak_bytes: int
    peak_op: str
    live: tuple[tuple[str, int], ...]
    extra_cost: float
    total_cost: float
    lower_bound: float | None
    structural_minimum_bytes: int
    structural_minimum_op: str
    status: Status
    solver: str
    seconds: float

    @property
    def extra_cost_fraction(self) -> float:
        return self.extra_cost / self.total_cost if self.total_cost else 0.0

    @property
    def lower_bound_fraction(self) -> float | None:
        if self.lower_bound is None:
            return None
        return self.lower_bound / self.total_cost if self.total_cost else 0.0

    @property
    def gap(self) -> float | None:
        """How much of one run a cheaper plan could save at most; None: unknown."""
        bound = self.lower_bound_fraction
        return None if bound is None else max(0.0, self.extra_cost_fraction - bound)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints: numbers and texts only."""
        return {
            "budget_bytes": self.budget_bytes,
            "peak_bytes": self.peak_bytes,
            "peak_op": self.peak_op,
            "extra_cost": self.extra_cost,
            "extra_cost_fraction": self.extra_cost_fraction,
            "lower_bound_fraction": self.lower_bound_fraction,
            "structural_minimum_bytes": self.structural_minimum_bytes,
            "structural_minimum_op": self.structural_minimum_op,
            "status": self.status.name.lower(),
            "solver": self.solver,
            "seconds": round(self.seconds, 3),
            "recomputes": [[r.op, r.before] for r in self.recomputes],
        }

    def __str__(self) -> str:
        bound, gap = self.lower_bound_fraction, self.gap
        known = "unknown" if bound is None else f"{bound:.2%}, so at most {gap:.2%} too much"
        lines = [
            f"status     {self.status.value}",
            f"budget     {format_bytes(self.budget_bytes)}",
            f"peak       {format_bytes(self.peak_bytes)}, at {self.peak_op}",
            f"recompute  {self.extra_cost_fraction:.2%} of one run, {len(self.recomputes)} ops",
            f"bound      {known}",
            f"minimum    {format_bytes(self.structural_minimum_bytes)}, for "
            f"{self.structural_minimum_op}",
            f"solver     {self.solver}, {self.seconds:.2f} s",
        ]
        lines += [f"  live     {name}: {format_bytes(size)}" for name, size in self.live[:5]]
        return "\n".join(lines)


_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_bytes(text: str) -> int:
    """Bytes of `8GiB`, `1.5 MiB` or `1000`. Raises ValueError."""
    number, factor = text.strip(), 1
    for unit, size in _UNITS.items():
        if number.endswith(unit):
            number, factor = number[: -len(unit)], size
    try:
        count = int(number) if factor == 1 else math.floor(float(number) * factor)
    except (ValueError, OverflowError):
        count = -1
    if count < 0:
        raise ValueError(f"{text!r} isn't a number of bytes, such as 8GiB")
    return count


def format_bytes(count: int) -> str:
    """`8.00 GiB (8589934592 bytes)`."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.2f} {unit} ({count} bytes)"
