# SPDX-License-Identifier: Apache-2.0
"""Measuring compiled programs side by side in one run."""

from __future__ import annotations

import dataclasses
import re
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import jaxlib
import numpy as np

from hlo_remat.strategy import compiler_options

MIB = 2.0**20
VERSION = tuple(int(n) for n in jaxlib.__version__.split(".")[:3])
# What XLA must be told so that the barriers of jax.checkpoint hold; empty where it needs nothing.
BARRIER_OPTIONS = compiler_options(jax.default_backend(), VERSION, False)


@dataclasses.dataclass
class Measured:
    """What XLA says of one compiled program; `gradients` are its results."""

    compiled: Any
    temp_mib: float
    gflop: float
    dots: int
    compile_s: float
    gradients: Any


def measure(
    lowered: Any, arguments: Sequence[Any], options: dict[str, str] | None = None
) -> Measured:
    start = time.perf_counter()
    compiled = lowered.compile(options)
    seconds = time.perf_counter() - start
    return Measured(
        compiled,
        compiled.memory_analysis().temp_size_in_bytes / MIB,
        compiled.cost_analysis()["flops"] / 1e9,
        count_dots(compiled.as_text()),
        seconds,
        jax.block_until_ready(compiled(*arguments)),
    )


def count_dots(text: str) -> int:
    """Dots and convolutions of a compiled program, those that a library does for XLA included."""
    return len(re.findall(r"= \S+ (?:dot|convolution)\(", text)) + len(
        re.findall(r'custom_call_target="__(?:onednn|cublas|cudnn)', text)
    )


def largest_relative_difference(a: Any, b: Any) -> float:
    """Over all leaves, the largest absolute difference over the leaf's largest value."""
    worst = 0.0
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        worst = max(worst, float(np.max(np.abs(x - y)) / (np.max(np.abs(y)) + 1e-30)))
    return worst


def time_ratio(
    a: Measured, b: Measured, arguments: Sequence[Any], pairs: int = 9, warm_up: int = 2
) -> float:
    """The median over interleaved pairs of the time of `a` over that of `b`."""
    for _ in range(warm_up):
        jax.block_until_ready((a.compiled(*arguments), b.compiled(*arguments)))
    ratios = []
    for i in range(pairs):
        seconds = {}
        for m in (a, b) if i % 2 == 0 else (b, a):
            start = time.perf_counter()
            jax.block_until_ready(m.compiled(*arguments))
            seconds[id(m)] = time.perf_counter() - start
        ratios.append(seconds[id(a)] / seconds[id(b)])
    return statistics.median(ratios)


def print_versions() -> None:
    device = jax.devices()[0].device_kind
    print(f"JAX {jax.__version__}, jaxlib {jaxlib.__version__}, {device}\n", flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A Markdown table; floats get three digits."""

    def text(cell: Any) -> str:
        return f"{cell:.3g}" if isinstance(cell, float) else str(cell)

    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(map(text, row)) + " |", flush=True)
