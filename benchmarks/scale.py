# SPDX-License-Identifier: Apache-2.0
"""How the passes and the proof grow with the module: seconds and memory, from 1,000 to 100,000 ops.

Each module is measured in a process of its own. Up to 10,000 ops XLA compiles it too, in the same
run, for the ratio that matters; above it would take XLA minutes.

    python benchmarks/scale.py --max-ops 100000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from common import print_table, print_versions
from jax import lax

import hlo_remat
from hlo_remat import module_io
from hlo_remat.ir.index import nested_ops
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.pipeline import pipeline_of
from hlo_remat.validation.verify import verify_operations

OPS_PER_LAYER = 390  # of the transformer, about
COMPILED_UP_TO = 12_000  # ops


def _block(w: Any, x: Any) -> Any:
    """A pre-norm transformer block with one head."""

    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6)

    q, k, v = (norm(x) @ w[n] for n in range(3))
    x = x + jax.nn.softmax(q @ k.T) @ v @ w[3]
    return x + jax.nn.gelu(norm(x) @ w[4]) @ w[5]


def transformer(ops: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    layers = max(1, ops // OPS_PER_LAYER)

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = hlo_remat.checkpoint(_block)(w, x)
        return jnp.sum(x**2)

    return loss, ([[jnp.ones((16, 16))] * 6] * layers, jnp.ones((8, 16)))


def stacks(count: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """One scan whose body hands over so many residuals, half of them recomputed."""

    def loss(w: Any, x: Any) -> Any:
        def step(x: Any, s: Any) -> Any:
            for k in range(count // 2):
                x = jnp.sin(x * s)
                x = hlo_remat.checkpoint(lambda x, k=k: jnp.sin(x) * w[k])(x)
            return x, None

        return jnp.sum(lax.scan(step, x, jnp.linspace(0.5, 1, 8))[0])

    return loss, (jnp.ones((count // 2, 4)), jnp.ones(4))


def nested(depth: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Regions in regions."""

    def f(x: Any) -> Any:
        return jnp.sin(x)

    for _ in range(depth):
        f = hlo_remat.checkpoint(lambda x, f=f: jnp.sin(f(jnp.sin(x))))
    return lambda x: jnp.sum(f(x)), (jnp.ones(4),)


MODELS = {"transformer": transformer, "residual stacks": stacks, "nested regions": nested}


def measure(name: str, size: int) -> dict[str, Any]:
    loss, arguments = MODELS[name](size)
    lowered = jax.jit(jax.grad(loss)).lower(*arguments)
    code = module_io.bytecode(lowered.compiler_ir("stablehlo"))
    seconds: dict[str, float] = {}
    module = module_io.parse(code)
    ops = len(nested_ops(module.operation))
    text = len(str(module))
    before = module.operation.clone()
    start_bytes = _peak_bytes()
    for element in default_pipeline().elements:
        start = time.perf_counter()
        pipeline_of(element).run(module, verify_each=False)
        label = element if isinstance(element, str) else element.name.removeprefix("hlo-remat-")
        seconds[label] = time.perf_counter() - start
    passes_bytes = _peak_bytes() - start_bytes
    start = time.perf_counter()
    proof = verify_operations(before, module.operation)
    seconds["verify"] = time.perf_counter() - start
    assert proof, str(proof)
    all_bytes = _peak_bytes() - start_bytes
    compile_s = None
    if ops <= COMPILED_UP_TO:
        start = time.perf_counter()
        hlo_remat.apply(lowered, verify=False).compile()
        compile_s = time.perf_counter() - start - sum(seconds.values()) + seconds["verify"]
    return {
        "ops": ops,
        "text": text,
        "seconds": seconds,
        "compile": compile_s,
        "passes bytes": passes_bytes,
        "all bytes": all_bytes,
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_a_process(name: str, size: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--max-ops", type=int, default=100_000)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.one:
        print(json.dumps(measure(flags.one[0], int(flags.one[1]))))
        return 0
    print_versions()
    sizes = [n for n in (1_000, 10_000, 30_000, 100_000) if n <= flags.max_ops]
    cases = [("transformer", n) for n in sizes] + [("residual stacks", 200), ("nested regions", 64)]
    rows, details, per_op = [], [], {}
    for name, size in cases:
        found = in_a_process(name, size)
        ops, seconds, text = found["ops"], found["seconds"], found["text"]
        verify = seconds["verify"]
        passes, compiled = sum(seconds.values()) - verify, found["compile"]
        per_op[name, size] = (passes + verify) / ops
        rows.append(
            (
                f"{name} {size}",
                f"{ops}",
                f"{passes:.2f}",
                f"{verify:.2f}",
                f"{1e6 * per_op[name, size]:.0f}",
                "-" if compiled is None else f"{compiled:.1f}",
                "-" if compiled is None else f"{(passes + verify) / compiled:.1%}",
                "-" if compiled is None else f"{verify / compiled:.1%}",
                f"{found['passes bytes'] / text:.1f}",
                f"{found['all bytes'] / text:.1f}",
            )
        )
        details.append((f"{name} {size}", *(f"{s:.3f}" for s in seconds.values())))
    header = ("module", "ops", "passes s", "verify s", "us/op", "compile s", "all/compile")
    memory = ("verify/compile", "passes: peak/text", "all: peak/text")
    print_table((*header, *memory), rows)
    print_table(("seconds", *seconds), details)
    large, middle = ("transformer", 100_000), ("transformer", 10_000)
    if large in per_op:
        growth = per_op[large] / per_op[middle]
        print(f"time per op at 100,000 ops over that at 10,000: {growth:.2f} (target: at most 2)")
        return int(growth > 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
