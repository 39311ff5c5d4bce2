# SPDX-License-Identifier: Apache-2.0
"""Runs lit once and reports each of its files as a test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIT_ROOT = ROOT / "test" / "lit"
FILES = sorted(
    str(path.relative_to(LIT_ROOT))
    for path in LIT_ROOT.rglob("*")
    if path.suffix in (".mlir", ".py") and path.name != "lit.cfg.py"
)


@pytest.fixture(scope="session")
def lit_results(tmp_path_factory):
    report = tmp_path_factory.mktemp("lit") / "report.json"
    lit = Path(sys.executable).with_name("lit")
    process = subprocess.run(
        [lit, "-q", "-j2", "--output", report, LIT_ROOT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), process.stdout + process.stderr
    tests = json.loads(report.read_text())["tests"]
    return {test["name"].removeprefix("hlo_remat :: "): test for test in tests}


@pytest.mark.parametrize("file", FILES)
def test_lit_file_passes(lit_results, file):
    assert file in lit_results, "lit has not seen this file"
    assert lit_results[file]["code"] == "PASS", lit_results[file]["output"]
