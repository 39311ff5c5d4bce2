# SPDX-License-Identifier: Apache-2.0
"""Models under each policy beside jax.checkpoint, in one run, with the targets that rows must meet.

Memory, FLOPs and dots come from XLA and are exact; times are medians of interleaved pairs.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from common import (
    BARRIER_OPTIONS,
    Measured,
    largest_relative_difference,
    measure,
    print_table,
    print_versions,
    time_ratio,
)
from jax.ad_checkpoint import checkpoint_name as jax_checkpoint_name
from models import Model

import hlo_remat
from hlo_remat import module_io
from hlo_remat.frontend.lowered import with_module

POLICIES = (
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "save_only_these_names",
)
HEADER = (
    "model",
    "policy",
    "plain MiB",
    "jax MiB",
    "jax+opt MiB",
    "ours MiB",
    "text MiB",
    "ours/jax",
    "text/jax",
    "time ours/jax",
    "time text/jax",
    "dots plain",
    "dots jax",
    "dots ours",
    "dots text",
    "grad diff",
    "pass/compile",
    "targets",
)


@dataclasses.dataclass
class Row:
    model: str
    policy: str
    plain: Measured
    jax: Measured
    reference: Measured
    ours: Measured
    text: Measured
    pass_s: float
    time_ours: float | None = None
    time_text: float | None = None

    def misses(self, has_time: bool) -> list[str]:
        """The targets that this row misses."""
        found = []
        memory = self.ours.temp_mib / self.reference.temp_mib
        by_text = self.text.temp_mib / self.reference.temp_mib
        if memory > 1.02:
            found.append(f"memory {memory:.3f}")
        if by_text > (1.10 if BARRIER_OPTIONS else 1.02):
            found.append(f"text memory {by_text:.3f}")
        if has_time and self.time_ours is not None and self.time_ours > 1.05:
            found.append(f"time {self.time_ours:.2f}")
        if has_time and self.time_text is not None and self.time_text > 1.05:
            found.append(f"text time {self.time_text:.2f}")
        if min(self.ours.dots, self.text.dots) < self.reference.dots:
            found.append("recompute lost")
        if self.model.endswith("transformer") and self.pass_s > 0.10 * self.ours.compile_s:
            found.append(f"pass time {self.pass_s / self.ours.compile_s:.2f}")
        differences = (
            largest_relative_difference(m.gradients, self.plain.gradients)
            for m in (self.ours, self.text)
        )
        if max(differences) > 1e-4:
            found.append("gradients")
        return found

    def cells(self, misses: list[str]) -> list[Any]:
        difference = largest_relative_difference(self.ours.gradients, self.plain.gradients)
        return [
            self.model,
            self.policy,
            self.plain.temp_mib,
            self.jax.temp_mib,
            self.reference.temp_mib,
            self.ours.temp_mib,
            self.text.temp_mib,
            self.ours.temp_mib / self.reference.temp_mib,
            self.text.temp_mib / self.reference.temp_mib,
            self.time_ours if self.time_ours is not None else "-",
            self.time_text if self.time_text is not None else "-",
            self.plain.dots,
            self.reference.dots,
            self.ours.dots,
            self.text.dots,
            difference,
            self.pass_s / self.ours.compile_s,
            "ok" if not misses else "MISS " + ", ".join(misses),
        ]


def policy_pair(name: str, names: tuple[str, ...]) -> tuple[Any, Any]:
    theirs, ours = (
        getattr(space, name) for space in (jax.checkpoint_policies, hlo_remat.checkpoint_policies)
    )
    return (theirs(*names), ours(*names)) if name == "save_only_these_names" else (theirs, ours)


def lower(model: Model, wrap: Any, name: Any) -> Any:
    return jax.jit(jax.grad(model.loss(wrap, name))).lower(*model.arguments)


def by_text_alone(lowered: Any) -> Any:
    """A Lowered of what the passes make of the module's text, to be compiled without options."""
    text = lowered.as_text(debug_info=True)
    return with_module(lowered, module_io.parse(hlo_remat.apply(text)), {})


def run_case(
    model_name: str,
    model: Model,
    plain: Measured,
    policy: str,
    timing: bool,
    barrier_options: dict[str, str],
) -> Row:
    theirs, ours = policy_pair(policy, model.names)
    args = model.arguments
    lowered_jax = lower(model, lambda f: jax.checkpoint(f, policy=theirs), jax_checkpoint_name)
    lowered = lower(
        model, lambda f: hlo_remat.checkpoint(f, policy=ours), hlo_remat.checkpoint_name
    )
    pass_times = []
    for _ in range(3):
        start = time.perf_counter()
        applied = hlo_remat.apply(lowered)
        pass_times.append(time.perf_counter() - start)
    as_it_is = measure(lowered_jax, args)
    reference = measure(lowered_jax, args, barrier_options) if barrier_options else as_it_is
    row = Row(
        model_name,
        policy,
        plain,
        as_it_is,
        reference,
        measure(applied, args),
        measure(by_text_alone(lowered), args),
        statistics.median(pass_times),
    )
    if timing:
        row.time_ours, row.time_text = (
            time_ratio(m, reference, args) for m in (row.ours, row.text)
        )
    return row


def measure_rows(
    models: Mapping[str, Callable[[], Model]],
    policies: Sequence[str],
    timing: bool,
    barrier_options: dict[str, str],
) -> tuple[list[list[Any]], int]:
    """The table's rows, and how many of them miss a target."""
    rows, missed = [], 0
    for model_name, make in models.items():
        model = make()
        plain = measure(lower(model, lambda f: f, lambda x, name: x), model.arguments)
        for policy in policies:
            row = run_case(model_name, model, plain, policy, timing, barrier_options)
            misses = row.misses(timing)
            missed += bool(misses)
            rows.append(row.cells(misses))
            print(f"... {model_name} {policy}: {rows[-1][-1]}", file=sys.stderr, flush=True)
    return rows, missed


def main(
    description: str | None,
    models: Mapping[str, Callable[[], Model]],
    policies: Sequence[str],
    barrier_options: dict[str, str],
) -> int:
    """Prints the table; 1 where a row misses a target."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--models", nargs="+", choices=models, default=list(models))
    parser.add_argument("--policies", nargs="+", choices=policies, default=list(policies))
    parser.add_argument("--no-timing", action="store_true")
    flags = parser.parse_args()
    print_versions()
    chosen = {name: models[name] for name in flags.models}
    rows, missed = measure_rows(chosen, flags.policies, not flags.no_timing, barrier_options)
    print_table(HEADER, rows)
    print(f"\n{len(rows) - missed} of {len(rows)} rows meet every target")
    return 1 if missed else 0
