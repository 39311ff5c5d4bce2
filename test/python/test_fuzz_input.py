# SPDX-License-Identifier: Apache-2.0
"""Garbled inputs, as many as CI has time for. `python -m hlo_remat.testing.fuzz_input` has more."""

from __future__ import annotations

import pathlib

from hlo_remat.testing.fuzz_input import cases, check, seeds_of

LIT = pathlib.Path(__file__).parents[1] / "lit" / "passes"


def test_nothing_escapes_from_the_tool(tmp_path):
    seeds = seeds_of([LIT / "partition.mlir", LIT / "lower-recompute.mlir"])
    assert len(seeds) >= 4
    inputs = [cases(seeds, number) for number in range(150)]
    assert sum(data not in seeds for data, _ in inputs) > 100
    for data, pipeline in inputs:
        check(data, pipeline, tmp_path)
