# SPDX-License-Identifier: Apache-2.0
"""What machines can do, as a table.

A table and not a measurement: every process of a job, on whatever machine it plans, must come to
the same plan. Only the ratios decide what a plan recomputes; the seconds that it predicts are those
of the machine in the table.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Target:
    """A roofline: a kernel takes the longest of its products, its other arithmetic and its traffic,
    and the launch besides (Williams, Waterman and Patterson, CACM 2009).

    - `dot_flops`: FLOP/s of dots and convolutions in 32 bits; `half_dot_flops` in 16.
    - `vector_flops`: FLOP/s of all else.
    - `bandwidth`: bytes/s of memory.
    - `overhead`: seconds of a kernel that does nothing.
    """

    name: str
    dot_flops: float
    half_dot_flops: float
    vector_flops: float
    bandwidth: float
    overhead: float


# GPUs: the vendors' data sheets, dense, TF32 for dots in 32 bits. CPU: a core with AVX2.
TARGETS = {
    "cpu": Target("cpu", 5e10, 2.5e10, 4e9, 1e10, 2e-6),
    "a100": Target("a100", 1.56e14, 3.12e14, 1.95e13, 2.0e12, 4e-6),
    "h100": Target("h100", 4.94e14, 9.89e14, 6.7e13, 3.35e12, 4e-6),
    "h200": Target("h200", 4.94e14, 9.89e14, 6.7e13, 4.8e12, 4e-6),
    "tpu": Target("tpu", 1.4e14, 2.75e14, 4e12, 1.2e12, 2e-6),
}


def target_named(description: str) -> Target:
    """The target that a device's kind or a platform names: "NVIDIA H100 80GB HBM3", "gpu", "cpu".
    Of GPUs that the table doesn't have an A100, of all else a CPU."""
    words = description.lower()
    known = (target for name, target in TARGETS.items() if name in words)
    is_gpu = any(name in words for name in ("gpu", "cuda", "rocm"))
    return next(known, TARGETS["a100" if is_gpu else "cpu"])
