# SPDX-License-Identifier: Apache-2.0
"""XLA's memory of a planned program, predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo_remat.budget.program import Program
from hlo_remat.ir.sizes import size_in_bytes
from hlo_remat.planner.simulate import Execution

_ALIASED = "tf.aliasing_output"
_MOMENTS = 24


def fixed_bytes(function: ir.Operation) -> int:
    """Bytes of a function's arguments and results, those of aliased ones once."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    total = sum(map(size_in_bytes, (*type_.inputs, *type_.results)))
    attributes: Any = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else ()
    aliased = (v for v, a in zip(type_.inputs, attributes, strict=False) if _ALIASED in a)
    return total - sum(map(size_in_bytes, aliased))


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
