# SPDX-License-Identifier: Apache-2.0
"""One training step compiled without remat, with jax.checkpoint placed by hand, and by a plan."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from budget_models import Build, Step
from common import VERSION, Measured, measure
from jax.ad_checkpoint import checkpoint_name

import hlo_remat
from hlo_remat.strategy import compiler_options

BACKEND = jax.default_backend()
# Programs that are not ours are compiled with each, and what is better counts.
SCHEDULERS: dict[str, dict[str, str]] = {"": {}}
if BACKEND == "cpu":
    SCHEDULERS[", memory scheduler"] = {
        "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
    }


def wrap_nothing(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def name_nothing(x: Any, name: str) -> Any:
    return x


@dataclasses.dataclass
class Hand:
    """A policy of jax.checkpoint that a person could choose; `recompute` is the share of the
    step's FLOPs in products and convolutions, `time` that over no remat."""

    label: str
    measured: Measured
    total_bytes: int
    recompute: float
    time: float | None = None

    @property
    def temp_mib(self) -> float:
        return self.measured.temp_mib

    def cells(self) -> list[Any]:
        return [self.label, self.temp_mib, self.measured.gflop, self.measured.dots]


class Case:
    """A step without remat (`plain`; `least_temp` over XLA's schedulers) and its other forms."""

    def __init__(self, name: str, step: Step) -> None:
        self.name, self.step, self.arguments = name, step, step.arguments
        traced = jax.jit(step.step(wrap_nothing, name_nothing)).trace(*self.arguments)
        self.flops = product_flops(traced.jaxpr.jaxpr)
        self.lowered = traced.lower()
        forms = [measure(self.lowered, self.arguments, o) for o in SCHEDULERS.values()]
        self.plain = forms[0]
        self.least_temp = min(_temp_bytes(m) for m in forms)
        self.fixed_bytes = self.total_bytes(self.plain) - _temp_bytes(self.plain)

    @staticmethod
    def total_bytes(measured: Measured) -> int:
        """Arguments, outputs and temporaries, those that share a buffer once."""
        m = measured.compiled.memory_analysis()
        return (
            m.argument_size_in_bytes
            + m.output_size_in_bytes
            + m.temp_size_in_bytes
            - m.alias_size_in_bytes
        )

    def measure_plan(self, plan: Any) -> Measured:
        return measure(hlo_remat.apply(self.lowered, plan=plan), self.arguments)

    def misreports(self, plan: Any, measured: Measured) -> bool:
        """Whether the plan's own numbers aren't XLA's."""
        total = self.total_bytes(measured)
        return plan.fixed_bytes != self.fixed_bytes or plan.measured_bytes not in (None, total)

    def gradient_difference(self, measured: Measured) -> float:
        """The norm of the difference over that of no remat's, of the optimiser's state: it is the
        gradients after a first step, while adam's step itself has the sign of what is near 0."""
        ours, plain = (
            np.concatenate([np.ravel(x) for x in jax.tree.leaves(m.gradients[1]) if _is_real(x)])
            for m in (measured, self.plain)
        )
        return float(np.linalg.norm(ours - plain) / np.linalg.norm(plain))

    @functools.cached_property
    def hands(self) -> list[Hand]:
        """Each policy with each placing and scheduler; of those alike only the first."""
        policies, names = jax.checkpoint_policies, self.step.names
        menu = {
            "nothing_saveable": policies.nothing_saveable,
            "dots_saveable": policies.dots_saveable,
            "dots_with_no_batch_dims_saveable": policies.dots_with_no_batch_dims_saveable,
            "save_only_these_names": policies.save_only_these_names(*names),
            "save_anything_except_these_names": policies.save_anything_except_these_names(*names),
        }
        found: dict[Any, Hand] = {}
        for region, build in {"": self.step.step, **self.step.regions}.items():
            for label, policy in menu.items():
                for hand in self._by_hand(f"{label} {region}".strip(), build, policy):
                    m = hand.measured
                    found.setdefault((hand.total_bytes, m.gflop, m.dots), hand)
        return list(found.values())

    def save_only(self, names: tuple[str, ...]) -> Iterator[Hand]:
        """With each scheduler."""
        policy = jax.checkpoint_policies.save_only_these_names(*names)
        return self._by_hand(" ".join(names) or "nothing", self.step.step, policy)

    def _by_hand(self, label: str, build: Build, policy: Any) -> Iterator[Hand]:
        step = build(lambda f: jax.checkpoint(f, policy=policy), checkpoint_name)
        traced = jax.jit(step).trace(*self.arguments)
        recompute = product_flops(traced.jaxpr.jaxpr) / self.flops - 1
        lowered = traced.lower()
        barriers = compiler_options(BACKEND, VERSION, self.step.has_loops)
        for scheduler, options in SCHEDULERS.items():
            measured = measure(lowered, self.arguments, barriers | options)
            total = self.total_bytes(measured)
            yield Hand(label + scheduler, measured, total, recompute)


def product_flops(jaxpr: Any) -> float:
    """FLOPs of products and convolutions, those in a scan's body for each of its runs: XLA's own
    count takes a body once."""
    total = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            contracted = eqn.params["dimension_numbers"][0][0]
            summed = math.prod(eqn.invars[0].aval.shape[i] for i in contracted)
            total += 2 * eqn.outvars[0].aval.size * summed
        elif eqn.primitive.name == "conv_general_dilated":
            kernel = eqn.invars[1].aval
            features = kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
            total += 2 * eqn.outvars[0].aval.size * kernel.size / features
        runs = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    total += runs * product_flops(inner)
    return total


def _temp_bytes(measured: Measured) -> int:
    return measured.compiled.memory_analysis().temp_size_in_bytes


def _is_real(x: Any) -> bool:
    return np.issubdtype(np.asarray(x).dtype, np.floating)
