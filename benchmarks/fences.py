# SPDX-License-Identifier: Apache-2.0
"""The measurement behind the rows of hlo_remat/strategy.py: `python3 benchmarks/fences.py`.

Every strategy and scope, compiled from text alone, for an MLP, a transformer and a ResNet; then the
collectives of a data-parallel MLP on four host devices.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
).strip()

import jax
import jax.numpy as jnp
import numpy as np
from common import BARRIER_OPTIONS, measure, print_table, print_versions, time_ratio
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from models import MODELS

import hlo_remat
from hlo_remat import module_io
from hlo_remat.frontend.lowered import with_module
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute

SCOPES = ("operands", "recompute", "backward")
HEADER = ("model", "strategy", "scope", "temp MiB", "dots", "time/plain", "compile s")
VARIANTS = [
    ("optimization-barrier", "operands"),
    *((strategy, scope) for strategy in ("call", "case", "while") for scope in SCOPES),
    ("none", "operands"),
]
COLLECTIVE = re.compile(r" (all-reduce|all-gather|reduce-scatter|all-to-all)(?:-start)?\(")


def fenced(lowered, strategy, scope):
    """A Lowered with this fence everywhere, to be compiled without options."""
    module = module_io.parse(module_io.bytecode(lowered.compiler_ir("stablehlo")))
    default_pipeline(lower=LowerRecompute(strategy=strategy, scope=scope)).run(module)
    return with_module(lowered, module, {})


def measure_fences(models: Sequence[str], timing: bool) -> list[list[Any]]:
    """A row for each model, strategy and scope, on one device."""
    rows = []
    for name in models:
        model = MODELS[name]()

        def lower(wrap, model=model):
            return jax.jit(jax.grad(model.loss(wrap, hlo_remat.checkpoint_name))).lower(
                *model.arguments
            )

        plain = measure(lower(lambda f: f), model.arguments)
        lowered = lower(hlo_remat.checkpoint)
        variants = [(s, c, fenced(lowered, s, c), None) for s, c in VARIANTS]
        barrier = variants[0][2]
        if BARRIER_OPTIONS:
            name_with = "optimization-barrier + option"
            variants.append((name_with, "operands", barrier, BARRIER_OPTIONS))
        rows.append([name, "no checkpoint", "-", plain.temp_mib, plain.dots, 1.0, plain.compile_s])
        for strategy, scope, variant, options in variants:
            got = measure(variant, model.arguments, options)
            ratio = "-"
            if timing:
                ratio = time_ratio(got, plain, model.arguments, pairs=5)
            rows.append([name, strategy, scope, got.temp_mib, got.dots, ratio, got.compile_s])
            print(f"... {name} {strategy} {scope}", file=sys.stderr, flush=True)
    return rows


def four_devices() -> None:
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    batch = NamedSharding(mesh, PartitionSpec("data"))
    whole = NamedSharding(mesh, PartitionSpec())

    def loss(wrap):
        layer = wrap(lambda w, x: x + jnp.tanh(jax.nn.gelu(x @ w[0]) @ w[1]))

        def f(ws, x):
            for w in ws:
                x = layer(w, x)
            return jnp.sum(x**2)

        return f

    ws = [jax.ShapeDtypeStruct((2, 256, 256), jnp.float32, sharding=whole)] * 8
    x = jax.ShapeDtypeStruct((1024, 256), jnp.float32, sharding=batch)
    rows = []
    for strategy, scope in [("no checkpoint", "-"), *VARIANTS]:
        if strategy == "no checkpoint":
            lowered = jax.jit(jax.grad(loss(lambda f: f))).lower(ws, x)
        else:
            marked = jax.jit(jax.grad(loss(hlo_remat.checkpoint))).lower(ws, x)
            lowered = fenced(marked, strategy, scope)
        compiled = lowered.compile()
        text = compiled.as_text()
        temp = compiled.memory_analysis().temp_size_in_bytes / 2**20
        dots = len(re.findall(r"= \S+ dot\(", text))
        rows.append([strategy, scope, temp, dots, len(COLLECTIVE.findall(text))])
    print_table(("strategy", "scope", "temp MiB/device", "dots", "collectives"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-timing", action="store_true")
    flags = parser.parse_args()
    print_versions()
    print_table(HEADER, measure_fences(("mlp", "transformer", "resnet"), not flags.no_timing))
    print()
    four_devices()


if __name__ == "__main__":
    main()
