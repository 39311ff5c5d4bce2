# SPDX-License-Identifier: Apache-2.0
"""XLA's temporary memory of a planned program, predicted."""

from __future__ import annotations

import numpy as np

from hlo_remat.budget.program import Program
from hlo_remat.planner.simulate import Execution

_MOMENTS = 24


def temp_bytes(program: Program, execution: Execution) -> int:
    """The temporary bytes of a program that runs as `execution` says.

    XLA lets a temporary have the memory of a result of the program that is not yet made, if it fits
    in there. So at each moment the largest temporaries go where they fit; the moments looked at are
    those with most bytes.
    """
    first = np.full(len(program.graph.values), len(execution.sequence), np.int64)
    np.minimum.at(first, execution.value, execution.birth)
    results = sorted(((size, int(first[v])) for v, size in program.outside.items()), reverse=True)
    moments = np.argsort(-execution.memory, kind="stable")[: 50 * _MOMENTS : 50]
    moments = np.union1d(moments, np.argsort(-execution.memory, kind="stable")[:_MOMENTS])
    return max((_at(execution, int(run), results) for run in moments), default=0)


def _at(execution: Execution, run: int, results: list[tuple[int, int]]) -> int:
    live = [size for _, size in execution.live(run)]
    hosted, k = 0, 0
    for room, made in results:
        if made <= run:
            continue
        while k < len(live) and live[k] > room:
            k += 1
        if k == len(live):
            break
        hosted += live[k]
        k += 1
    return int(execution.memory[run]) - hosted
