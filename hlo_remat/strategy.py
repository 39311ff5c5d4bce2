# SPDX-License-Identifier: Apache-2.0
"""Which fence holds where: the table behind `strategy=auto`.

A row is a measurement, not a belief; benchmarks/straight_line.py repeats those for CPU,
benchmarks/gpu.py prints what a row for GPU needs. No GPU has been measured yet: there, as on any
other target, `auto` takes the barrier, which is what `jax.checkpoint` puts there.
"""

from __future__ import annotations

import dataclasses

CSE_EXPANDER = "cse_barrier_expander"
LOOP_HOISTING = "small-while-loop-hoisting"


@dataclasses.dataclass(frozen=True)
class Choice:
    """A fence, and what it holds: the recompute alone, or the region's backward too."""

    strategy: str
    scope: str


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the choice for one region depends on.

    `jaxlib` is the version whose XLA compiles the module, `has_options` whether whoever compiles
    passes `compiler_options(target, jaxlib)`. `has_convolution` and `is_partitioned` say that the
    region's backward has a convolution and that the module runs on several devices.
    """

    target: str
    jaxlib: tuple[int, ...]
    has_options: bool
    has_convolution: bool
    is_partitioned: bool


def barrier_needs_option(target: str, jaxlib: tuple[int, ...]) -> bool:
    """Up to jaxlib 0.11.0 XLA CPU removes barriers before its last CSE, later after scheduling."""
    return target == "cpu" and jaxlib < (0, 11, 1)


def compiler_options(
    target: str, jaxlib: tuple[int, ...], barrier_in_loop: bool = False
) -> dict[str, str]:
    """What XLA must be told so that barriers hold.

    Where XLA CPU makes one kernel of a small loop, a barrier that is left in its body aborts the
    process; so with `barrier_in_loop` it must make none.
    """
    if not barrier_needs_option(target, jaxlib):
        return {}
    disabled = [CSE_EXPANDER, LOOP_HOISTING] if barrier_in_loop else [CSE_EXPANDER]
    return {"xla_disable_hlo_passes": ",".join(disabled)}


def choose(facts: Facts) -> Choice:
    """The fence for one region.

    | target and XLA | fence | why |
    | --- | --- | --- |
    | cpu, jaxlib >= 0.11.1 or with `compiler_options` | barrier | jax.checkpoint's memory |
    | cpu, older, plain text | call, with the backward | the barrier is merged away; a call holds |
    | ... a convolution in the backward | call, recompute alone | 17x slower when nested |
    | ... several devices | call, recompute alone | gradient all-reduces stay combined |
    | any other | barrier | not measured |
    """
    if not barrier_needs_option(facts.target, facts.jaxlib) or facts.has_options:
        return Choice("optimization-barrier", "recompute")
    if facts.has_convolution or facts.is_partitioned:
        return Choice("call", "recompute")
    return Choice("call", "backward")
