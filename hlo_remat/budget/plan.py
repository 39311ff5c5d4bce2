# SPDX-License-Identifier: Apache-2.0
"""`Plan`: what a memory budget makes of a module, and what is known of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from hlo_remat.planner.plan import Status, format_bytes

_LINES = 6  # of each list that a page shows


@dataclasses.dataclass(frozen=True)
class Again:
    """The ops of one place in the source that run again.

    - `where`: an op and its `file:line:col`.
    - `runs`: how many runs more than without the plan.
    - `bytes`: of the results that are therefore not kept, on one device.
    - `flops`, `seconds`: of those runs; the seconds are the target's, by its roofline.
    """

    where: str
    runs: int
    bytes: int
    flops: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """What runs again, so that a module fits a budget of memory.

    Memory is in bytes of one device and as XLA's `memory_analysis()` counts it: arguments + outputs
    + temp - aliased.

    - `budget_bytes`: None where there was none (`policy="auto"`, `memory_budget="min"`).
    - `status`: whether the plan fits, and is the cheapest, by the model of the program that
      docs/budget.md describes. `reason` says in a sentence what became of the module.
    - `predicted_bytes`: by the model, before this plan was compiled; `measured_bytes`: by XLA, None
      where it wasn't compiled.
    - `baseline_bytes`: without a plan; `fixed_bytes`: of it arguments and outputs, which no plan
      changes.
    - `minimum_bytes`, `minimum_op`: the model's program needs at least so much, for that op.
    - `again`: what runs again, most seconds first. `recompute_flops`, `recompute_seconds`: in all;
      `total_flops`, `total_seconds`: of the whole program without it.
    - `lower_bound_seconds`: no plan in the budget recomputes less, by the model; None: unknown.
    - `live`: (where, bytes) of what is kept when most is, most bytes first; what a loop stacks
      counts with all its trips.
    - `compiler_options`: what the compile of the planned module must be told.
    - `compiles`: how often XLA compiled; `seconds`: all of the planning. `solver`: what found it.
    """

    status: Status
    reason: str
    target: str
    budget_bytes: int | None
    predicted_bytes: int
    measured_bytes: int | None
    baseline_bytes: int
    fixed_bytes: int
    minimum_bytes: int
    minimum_op: str
    again: tuple[Again, ...]
    total_flops: float
    total_seconds: float
    lower_bound_seconds: float | None
    live: tuple[tuple[str, int], ...]
    compiler_options: Mapping[str, str]
    compiles: int
    seconds: float
    solver: str
    module: bytes = dataclasses.field(repr=False)
    fingerprint: str = dataclasses.field(repr=False)
    lowered: Any = dataclasses.field(default=None, repr=False, compare=False)
    source: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def recompute_flops(self) -> float:
        return sum(a.flops for a in self.again)

    @property
    def recompute_seconds(self) -> float:
        return sum(a.seconds for a in self.again)

    @property
    def memory_bytes(self) -> int:
        """As measured, or else as predicted."""
        return self.predicted_bytes if self.measured_bytes is None else self.measured_bytes

    @property
    def gap(self) -> float | None:
        """How much of the program's time a cheaper plan could save at most; None: unknown."""
        if self.lower_bound_seconds is None:
            return None
        excess = self.recompute_seconds - self.lower_bound_seconds
        return max(0.0, excess / self.total_seconds) if self.total_seconds else 0.0

    def to_json(self) -> str:
        """All of it but the module, as a JSON object. Bytes, seconds and FLOPs are numbers."""
        hidden = ("module", "lowered", "source")
        names = (f.name for f in dataclasses.fields(self) if f.name not in hidden)
        data = {name: getattr(self, name) for name in names}
        data["status"] = self.status.name.lower()
        data["again"] = [dataclasses.asdict(a) for a in self.again]
        data["compiler_options"] = dict(self.compiler_options)
        for name in ("recompute_flops", "recompute_seconds", "gap"):
            data[name] = getattr(self, name)
        return json.dumps(data, indent=1)

    def __str__(self) -> str:
        temp = self.baseline_bytes - self.fixed_bytes
        measured = "not compiled" if self.measured_bytes is None else size(self.measured_bytes)
        lines = [
            self.reason,
            "",
            *([] if self.budget_bytes is None else [f"  budget      {size(self.budget_bytes)}"]),
            f"  this plan   {measured} by XLA, {size(self.predicted_bytes)} predicted",
            f"  without     {size(self.baseline_bytes)}: {size(self.fixed_bytes)} of arguments and "
            f"outputs, which no plan changes, and {size(temp)} of temporaries",
            f"  recompute   {self._cost()}",
            f"  bound       {self._bound()}",
            f"  minimum     {size(self.minimum_bytes)}, for {self.minimum_op}",
        ]
        lines += [f"  compile     with {k}={v}" for k, v in sorted(self.compiler_options.items())]
        lines += [
            f"  planned     in {self.seconds:.1f} s, of {self.compiles} compiles; {self.solver}"
        ]
        lines += _listed(
            "runs again", [(a.where, f"{size(a.bytes)}, {a.runs} runs") for a in self.again]
        )
        lines += _listed("kept at the peak", [(w, size(b)) for w, b in self.live])
        return "\n".join(lines)

    def _cost(self) -> str:
        if not self.again:
            return "nothing"
        flops = self.recompute_flops / self.total_flops if self.total_flops else 0.0
        share = self.recompute_seconds / self.total_seconds if self.total_seconds else 0.0
        return (
            f"{flops:.1%} more FLOPs ({self.recompute_flops:.3g}), about {share:.1%} more time "
            f"({self.recompute_seconds:.2g} s on {self.target})"
        )

    def _bound(self) -> str:
        if not self.again:
            return "nothing is cheaper than nothing"
        if self.gap is None:
            return "unknown"
        return f"a plan in this budget can be cheaper by {self.gap:.1%} of the program at most"


def _listed(title: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [f"\n  {title}:"] if rows else []
    lines += [f"    {text:<22} {where}" for where, text in rows[:_LINES]]
    if len(rows) > _LINES:
        lines.append(f"    ... and {len(rows) - _LINES} more places")
    return lines


def size(count: int) -> str:
    """`8.00 GiB`."""
    return format_bytes(count).partition(" (")[0]
