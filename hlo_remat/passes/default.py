# SPDX-License-Identifier: Apache-2.0
"""The pipeline that `apply` runs when nobody says otherwise."""

from __future__ import annotations

from hlo_remat.passes.dead_carry import DeadCarry
from hlo_remat.passes.inline import Inline
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.partition import Partition
from hlo_remat.passes.pin_buffers import PinBuffers
from hlo_remat.passes.pin_inputs import PinInputs
from hlo_remat.passes.pipeline import Pipeline
from hlo_remat.passes.recompute import Recompute
from hlo_remat.passes.strip import Strip


def default_pipeline(
    partition: Partition | None = None, lower: LowerRecompute | None = None
) -> Pipeline:
    """Every pass in order, with `symbol-dce` for the functions left over.

    No `cse`: it would merge a recompute in a branch with the forward, as XLA would.
    """
    lower = lower or LowerRecompute()
    return Pipeline(
        (
            Inline(),
            partition or Partition(),
            Recompute(),
            lower,
            PinInputs(target=lower.target, jaxlib=lower.jaxlib),
            Strip(),
            "symbol-dce",
            DeadCarry(),
            PinBuffers(target=lower.target, jaxlib=lower.jaxlib),
        )
    )
