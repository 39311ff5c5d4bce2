# SPDX-License-Identifier: Apache-2.0
"""Which fence holds where: the table behind `strategy=auto`.

A row is a measurement, not a belief: benchmarks/fences.py repeats those for CPU, benchmarks/gpu.py
prints what a row for GPU needs. No GPU has been measured yet: there, as on any other target, `auto`
takes the barrier, which is what `jax.checkpoint` puts there.
"""

from __future__ import annotations

CSE_EXPANDER = "cse_barrier_expander"
LOOP_HOISTING = "small-while-loop-hoisting"


def parse_version(text: str) -> tuple[int, ...]:
    """(0, 12, 0) of "0.12.0.1" and the like."""
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def _removes_barriers(target: str, jaxlib: tuple[int, ...]) -> bool:
    """Up to jaxlib 0.11.0 XLA CPU removes barriers before its last CSE, later after scheduling."""
    return target == "cpu" and jaxlib < (0, 11, 1)


def choose(target: str, jaxlib: tuple[int, ...]) -> str:
    """The fence for what XLA of this jaxlib compiles.

    | target and jaxlib | fence | why |
    | --- | --- | --- |
    | cpu, before 0.11.1 | call | the barrier is merged away; a call of the operands costs nothing |
    | cpu, later | optimization-barrier | jax.checkpoint's memory |
    | any other | optimization-barrier | not measured |
    """
    return "call" if _removes_barriers(target, jaxlib) else "optimization-barrier"


def compiler_options(target: str, jaxlib: tuple[int, ...], barrier_in_loop: bool) -> dict[str, str]:
    """What XLA must be told so that the barriers of a module hold.

    Where XLA CPU makes one kernel of a small loop, a barrier that is left in its body aborts the
    process; so with `barrier_in_loop` it must make none.
    """
    if not _removes_barriers(target, jaxlib):
        return {}
    disabled = [CSE_EXPANDER, LOOP_HOISTING] if barrier_in_loop else [CSE_EXPANDER]
    return {"xla_disable_hlo_passes": ",".join(disabled)}
