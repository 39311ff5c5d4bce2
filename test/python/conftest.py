# SPDX-License-Identifier: Apache-2.0
"""What tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Runs a program in a process of its own with some environment variables; its stdout."""

    def run(program: str, *arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
