# SPDX-License-Identifier: Apache-2.0
"""Loops, branches and shard_map beside jax.checkpoint, in one run:
`python3 benchmarks/control_flow.py`.

Exit code 1 where a target is missed. The shard_map model runs on four host devices; its memory is
that of each.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
).strip()

import jax
from common import VERSION
from compare import POLICIES, main
from models import CONTROL_FLOW

from hlo_remat.strategy import compiler_options

if __name__ == "__main__":
    options = compiler_options(jax.default_backend(), VERSION, barrier_in_loop=True)
    raise SystemExit(main(__doc__, CONTROL_FLOW, POLICIES, options))
