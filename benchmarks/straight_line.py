# SPDX-License-Identifier: Apache-2.0
"""Straight-line models beside jax.checkpoint, in one run: `python3 benchmarks/straight_line.py`.

Exit code 1 where a target is missed.
"""

from __future__ import annotations

from common import BARRIER_OPTIONS
from compare import POLICIES, main
from models import MODELS

if __name__ == "__main__":
    raise SystemExit(main(__doc__, MODELS, POLICIES, BARRIER_OPTIONS))
