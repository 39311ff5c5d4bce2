# SPDX-License-Identifier: Apache-2.0
"""Every example runs, stays short, and shows what it is there to show."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
SHOWN = {
    "checkpoint_and_apply.py": r"hlo_remat +\d+\.\d MiB",
    "names.py": r"named 'attention'(.|\n)*speaks of \['atention'\]",
    "opt_tool.py": r'"recompute"(.|\n)*dot_general +5 -> +6\n +composite +7 -> +0\n +if +0 -> +2',
    "with_equinox.py": r"step 4: loss \d",
    "with_flax.py": r"step 4: loss \d",
}


def run(example):
    done = subprocess.run(
        [sys.executable, str(example)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_none_is_missing():
    assert {path.name for path in FOLDER.glob("*.py")} == SHOWN.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_example(name):
    assert len((FOLDER / name).read_text().splitlines()) < 60
    out = run(FOLDER / name)
    assert re.search(SHOWN[name], out), out
    memory = [float(n) for n in re.findall(r"([\d.]+) MiB temporary", out)]
    assert memory == sorted(memory, reverse=True), "hlo_remat's comes last"
