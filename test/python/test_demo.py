# SPDX-License-Identifier: Apache-2.0
"""The demo, small; its numbers come from XLA, so they are exact."""

import subprocess
import sys

import pytest

from hlo_remat import __main__, demo
from hlo_remat.demo.model import Config


def test_rows(capsys):
    rows = demo.run(Config(layers=2, width=32, heads=2, batch=2, length=64), repeats=1)
    out = capsys.readouterr().out
    baseline, *others = rows
    assert [r.label for r in others] == ["jax.checkpoint", "hlo_remat"] * 3
    for row in others:
        assert row.largest_difference < 1e-5
        assert row.flops > baseline.flops
    for row in others[1::2]:
        assert row.temp_bytes < baseline.temp_bytes
        assert "values" in row.kept[0]
    assert any("named 'attention'" in line for line in rows[-1].kept[1:])
    for name in demo.policies():
        assert name in out


def test_difference_is_measured():
    import numpy as np

    baseline = demo.Row("", 0, 0.0, 0.0, 0.0, (), {"w": np.array([1.0, 2.0])})
    assert demo._difference({"w": np.array([1.0, 2.5])}, baseline) == 0.5


def test_missing_extra(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert __main__.main(["demo"]) == 1
    assert "pip install 'hlo-remat[demo]'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["train"]])
def test_usage(arguments):
    result = subprocess.run(
        [sys.executable, "-m", "hlo_remat", *arguments], capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "usage: python -m hlo_remat" in result.stderr
