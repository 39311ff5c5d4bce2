# SPDX-License-Identifier: Apache-2.0
"""The modules that try to fool the matching of loops compute the same after each stage."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
from stages import check_stages

FOLDER = pathlib.Path(__file__).parents[2] / "lit" / "passes"
FILES = [
    FOLDER / f"{name}.mlir"
    for name in (
        "partition-loops",
        "partition-branches",
        "origins",
        "origins-trips",
        "origins-pipeline",
    )
]
# The reference interpreter knows no sdy.manual_computation.
MODULES = [
    module
    for file in FILES
    for module in file.read_text().split("// -----\n")
    if "sdy.mesh" not in module
]
NAMES = [re.search(r"^// (.*?)[.:]?$", m.split("RUN:")[-1], re.MULTILINE)[1] for m in MODULES]


@pytest.mark.parametrize("text", MODULES, ids=NAMES)
def test_each_stage_computes_the_same(text):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, g = rng.normal(0.5, 1, (2, 4)).astype(np.float32)
        extra = [np.int32(rng.integers(3))] if ": tensor<i32>) ->" in text else []
        extra += [np.bool_(seed), np.bool_(1 - seed)] if "%p: tensor<i1>, %q" in text else []
        check_stages(text, [x, g, *extra])
