# SPDX-License-Identifier: Apache-2.0
"""The passes, in pipeline order. This list is the registry: a new pass is one file and one line."""

from hlo_remat.passes.base import NamedPipeline, Pass
from hlo_remat.passes.dead_carry import DeadCarry
from hlo_remat.passes.inline import Inline
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.partition import Partition
from hlo_remat.passes.pin_buffers import PinBuffers
from hlo_remat.passes.pin_inputs import PinInputs
from hlo_remat.passes.recompute import Recompute
from hlo_remat.passes.strip import Strip
from hlo_remat.passes.verify import Verify

_ORDER: tuple[type[Pass] | str, ...] = (
    Inline,
    Partition,
    Recompute,
    LowerRecompute,
    PinInputs,
    Strip,
    "symbol-dce",
    DeadCarry,
    PinBuffers,
)
PASSES: tuple[type[Pass], ...] = (*(p for p in _ORDER if not isinstance(p, str)), Verify)

PIPELINES: tuple[NamedPipeline, ...] = (
    NamedPipeline(
        "hlo-remat-pipeline",
        "Runs all of the passes in order, and `symbol-dce`: what `apply` does.",
        _ORDER,
    ),
)
