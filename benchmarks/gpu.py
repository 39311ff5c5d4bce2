# SPDX-License-Identifier: Apache-2.0
"""The tables of straight_line.py and fences.py on a CUDA machine: `python3 benchmarks/gpu.py`.

They are what the rows for GPU in hlo_remat/strategy.py need. Writes them to gpu.json too, or to the
file given. Exit code 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

# Take memory as it is needed: others may use the GPU too.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import compare
import fences
import jax
import jaxlib
from common import print_table, print_versions
from models import MODELS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", nargs="?", default="gpu.json", help="file to write")
    flags = parser.parse_args()
    if jax.default_backend() != "gpu":
        print(
            f"benchmarks/gpu.py: JAX {jax.__version__} finds no GPU here, only "
            f"'{jax.default_backend()}'. On a CUDA machine install JAX with "
            "`python3 -m pip install -U 'jax[cuda12]'`, and unset JAX_PLATFORMS.",
            file=sys.stderr,
        )
        return 2
    print_versions()
    rows, missed = compare.measure_rows(MODELS, compare.POLICIES, True, {})
    print_table(compare.HEADER, rows)
    print(f"\n{len(rows) - missed} of {len(rows)} rows meet every target\n")
    fence_rows = fences.measure_fences(("mlp", "transformer"), timing=True)
    print_table(fences.HEADER, fence_rows)
    report = {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "device": jax.devices()[0].device_kind,
        "straight_line": [dict(zip(compare.HEADER, row, strict=True)) for row in rows],
        "fences": [dict(zip(fences.HEADER, row, strict=True)) for row in fence_rows],
    }
    with open(flags.json, "w") as file:
        json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
