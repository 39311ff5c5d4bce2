# SPDX-License-Identifier: Apache-2.0
"""Dump a module, rewrite it with hlo-remat-opt, stop after any pass."""

import pathlib
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp

import hlo_remat


def loss(w, x):
    layer = hlo_remat.checkpoint(lambda w, x: jnp.sin(jnp.tanh(x @ w)))
    return jnp.sum(layer(w, layer(w, x)))


def opt(*arguments):
    command = [sys.executable, "-m", "hlo_remat.tools.opt", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    module = pathlib.Path(folder, "step.mlir")
    w = x = jnp.ones((64, 64))
    module.write_text(jax.jit(jax.grad(loss)).lower(w, x).as_text())

    # The same as: hlo-remat-opt step.mlir --hlo-remat-inline --hlo-remat-partition
    partitioned = opt(str(module), "--hlo-remat-inline", "--hlo-remat-partition")
    decisions = [line.strip() for line in partitioned.splitlines() if "decisions" in line]
    print("what the backward of each region gets:")
    for line in decisions:
        print(f"  {line[line.index('decisions') :].split(']')[0]}]")

    pipeline = "builtin.module(hlo-remat-pipeline{strategy=case})"
    rewritten = opt(str(module), f"--pass-pipeline={pipeline}")
    print(f"\nafter {pipeline}:")
    for op in ("dot_general", "composite", "if"):
        before = module.read_text().count(f"stablehlo.{op}")
        print(f"  {op:12}{before:3} -> {rewritten.count(f'stablehlo.{op}')}")
