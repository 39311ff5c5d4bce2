# SPDX-License-Identifier: Apache-2.0
"""`python -m hlo_remat demo`: a training step without checkpoint, with JAX's, and with ours."""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name as jax_checkpoint_name

import hlo_remat
from hlo_remat.demo.model import Config, Problem, make_problem
from hlo_remat.frontend.residuals import SavedResiduals

NAMES = ("attention", "mlp")
_SHOWN = 3  # kinds of residuals that are listed
_HEADER = (
    f"{'':34}{'temp MiB':>9}{'ms/step':>9}{'+GFLOP':>8}{'grad diff':>11}  kept for the backward"
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table: XLA's numbers for one compiled step."""

    label: str
    temp_bytes: int
    milliseconds: float
    flops: float
    largest_difference: float
    kept: tuple[str, ...]
    grads: Any = dataclasses.field(repr=False)


def policies() -> dict[str, tuple[Any, Any]]:
    """Name -> JAX's policy and ours."""
    ours, jaxs = hlo_remat.checkpoint_policies, jax.checkpoint_policies
    return {
        "nothing_saveable": (jaxs.nothing_saveable, ours.nothing_saveable),
        "dots_with_no_batch_dims_saveable": (
            jaxs.dots_with_no_batch_dims_saveable,
            ours.dots_with_no_batch_dims_saveable,
        ),
        f"save_only_these_names{NAMES}": (
            jaxs.save_only_these_names(*NAMES),
            ours.save_only_these_names(*NAMES),
        ),
    }


def run(config: Config | None = None, repeats: int = 7) -> list[Row]:
    """Compiles and runs every variant, printing the table as it grows. Returns its rows."""
    config = config or Config()
    problem = make_problem(config)
    count = sum(x.size for x in jax.tree.leaves(problem.params))
    print(
        f"A decoder of {config.layers} layers (flax, {count:,} parameters, batch {config.batch} x "
        f"{config.length} characters), one adam step (optax), on {jax.default_backend()}, "
        f"JAX {jax.__version__}\n\n{_HEADER}"
    )
    baseline = _measure("no checkpoint", problem, lambda f: f, _unnamed, None, repeats)
    rows = [baseline]
    for name, (theirs, ours) in policies().items():
        print(f"\n{name}")
        wrap_jax = _wrapping(jax.checkpoint, theirs)
        wrap = _wrapping(hlo_remat.checkpoint, ours)
        named = hlo_remat.checkpoint_name
        rows += [
            _measure("jax.checkpoint", problem, wrap_jax, jax_checkpoint_name, baseline, repeats),
            _measure("hlo_remat", problem, wrap, named, baseline, repeats, apply=True),
        ]
    print(
        "\ntemp: XLA's temporary memory. +GFLOP: work beyond the step without checkpoint. kept: "
        "hlo_remat.saved_residuals, parameters included."
    )
    return rows


def _wrapping(checkpoint: Any, policy: Any) -> Callable[..., Any]:
    return lambda f: checkpoint(f, policy=policy)


def _unnamed(x: Any, name: str) -> Any:
    return x


def _measure(
    label: str,
    problem: Problem,
    wrap: Callable[..., Any],
    name_value: Callable[[Any, str], Any],
    baseline: Row | None,
    repeats: int,
    apply: bool = False,
) -> Row:
    _progress(f"compiling: {label} ...")
    arguments = problem.params, problem.state, problem.tokens
    lowered = jax.jit(problem.step(wrap, name_value)).lower(*arguments)
    compiled: Any = (hlo_remat.apply(lowered) if apply else lowered).compile()
    grads = compiled(*arguments)[3]
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    kept: tuple[str, ...] = ()
    if apply:
        residuals = hlo_remat.saved_residuals(
            problem.loss(wrap, name_value), problem.params, problem.tokens
        )
        kept = _kept(residuals)
    row = Row(
        label,
        compiled.memory_analysis().temp_size_in_bytes,
        1e3 * statistics.median(times),
        compiled.cost_analysis()["flops"],
        _difference(grads, baseline),
        kept,
        grads,
    )
    _progress("")
    extra = (row.flops - baseline.flops) / 1e9 if baseline else 0.0
    print(
        f"  {row.label:32}{row.temp_bytes / 2**20:9.1f}{row.milliseconds:9.1f}{extra:8.2f}"
        f"{row.largest_difference:11.1e}  {''.join(row.kept[:1])}".rstrip(),
        *(f"      {line}" for line in row.kept[1:]),
        sep="\n",
        flush=True,
    )
    return row


def _difference(grads: Any, baseline: Row | None) -> float:
    """The largest absolute difference to the gradients without checkpoint."""
    reference = grads if baseline is None else baseline.grads
    pairs = zip(jax.tree.leaves(grads), jax.tree.leaves(reference), strict=True)
    return max(float(np.max(np.abs(a - b))) for a, b in pairs)


def _kept(residuals: SavedResiduals) -> tuple[str, ...]:
    """The total, then the largest values that are no arguments; those of equal layers as one."""
    groups: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for r in residuals:
        if not r.source.startswith("from the argument"):
            source = re.sub(r"\S*/", "", r.source)  # the file without its folder
            text = f"{r.dtype.name}[{','.join(map(str, r.shape))}] {source}"
            groups[text] += r.nbytes
            count[text] += 1
    total = f"{len(residuals)} values, {residuals.nbytes / 2**20:.1f} MiB"
    largest = groups.most_common(_SHOWN)
    return total, *(f"{n / 2**20:5.1f} MiB: {count[text]} x {text}" for text, n in largest)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
