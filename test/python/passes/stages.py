# SPDX-License-Identifier: Apache-2.0
"""Runs the pipeline stage by stage, and modules in StableHLO's reference interpreter.

The interpreter merges and reorders nothing, so all stages must give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat import module_io
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.partition import Partition
from hlo_remat.passes.pipeline import pipeline_of


def interpret(text: str, arguments: Sequence[Any]) -> list[np.ndarray]:
    module = module_io.parse(text)
    with module.context:
        given = [ir.DenseElementsAttr.get(np.asarray(a)) for a in jax.tree.leaves(arguments)]
        return [np.array(result) for result in stablehlo.eval_module(module, given)]


def stages(
    text: str, partition: Partition | None = None, lower: LowerRecompute | None = None
) -> Iterator[tuple[str, str]]:
    """Each element of the default pipeline, and the module after it. Each result is verified."""
    module = module_io.parse(text)
    for element in default_pipeline(partition, lower).elements:
        pipeline_of(element).run(module)
        assert module.operation.verify()
        yield str(element), str(module)


def check_stages(text: str, arguments: Sequence[Any], **passes: Any) -> str:
    """Asserts that each stage computes what `text` does, bit for bit; the last stage's text."""
    expected = interpret(text, arguments)
    for name, after in stages(text, **passes):
        for a, b in zip(interpret(after, arguments), expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name, strict=True)
    assert '"hlo_remat.' not in after
    return after
