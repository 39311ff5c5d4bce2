# SPDX-License-Identifier: Apache-2.0
"""Random programs for as long as you like: `python -m hlo_remat.testing.fuzz --minutes 60`.

Programs run in a process of their own, so that one that ends it is a finding too. What is found is
shrunk and written to a folder: a program that shows it again, and the module as a lit test.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

_BATCH = 40  # programs between two looks at the clock
_BATCHES = 4  # of one process


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hlo_remat.testing.fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="the first of the batches' seeds")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("fuzz.out"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    flags.out.mkdir(parents=True, exist_ok=True)
    return _work(flags) if flags.worker else _supervise(flags)


def _supervise(flags: argparse.Namespace) -> int:
    """Runs batches in a process that is started again when it dies."""
    end, seed, count = time.monotonic() + 60 * flags.minutes, flags.seed, 0
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, "-m", "hlo_remat.testing.fuzz", "--worker", "--minutes"]
        command += [str(left / 60), "--seed", str(seed), "--out", str(flags.out)]
        environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", **os.environ}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        for line in process.stdout:
            seed, programs = map(int, line.split())
            count += programs
            print(f"{count} programs, {_findings(flags.out)} findings", flush=True)
        if process.wait():
            if not (flags.out / "now.py").exists():
                return 2  # it never began, and said why
            (flags.out / "now.py").rename(flags.out / f"died-{seed}.py")
        seed += 1
    print(f"{count} programs, {_findings(flags.out)} findings in {flags.out}")
    return int(_findings(flags.out) > 0)


def _findings(folder: pathlib.Path) -> int:
    return len(list(folder.glob("found-*.py"))) + len(list(folder.glob("died-*.py")))


def _work(flags: argparse.Namespace) -> int:
    """Some batches; for each a line with its seed and how many programs it had. XLA keeps memory
    for each program, so that a process must not go on for ever."""
    end = time.monotonic() + 60 * flags.minutes
    for seed in range(flags.seed, flags.seed + _BATCHES):
        if time.monotonic() < end:
            print(seed, _batch(seed, flags.out), flush=True)
    return 0


def _batch(seed: int, folder: pathlib.Path) -> int:
    """Checks programs until one is found, which is shrunk and written; how many there were."""
    import hypothesis
    import jax

    from hlo_remat.testing.programs import Program, programs
    from hlo_remat.testing.properties import check

    x64, count = seed % 4 == 1, 0
    last: Program | None = None

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(programs(x64=x64, sharded=seed % 4 == 3))
    def run(program: Program) -> None:
        nonlocal count, last
        count, last = count + 1, program
        (folder / "now.py").write_text(_script(program, x64))
        check(program)

    with jax.enable_x64(x64):
        try:
            run()
        except Exception as error:  # whatever it is, it is a finding
            _write(folder, last, x64, error)
    return count


def _script(program: Any, x64: bool, error: str = "") -> str:
    comment = "".join(f"# {line}\n" for line in error.splitlines())
    return (
        f"{comment}import jax\n\nfrom hlo_remat.testing.programs import Program\n"
        f"from hlo_remat.testing.properties import check\n\n"
        f"with jax.enable_x64({x64}):\n    check({program!r})\n"
    )


def _write(folder: pathlib.Path, program: Any, x64: bool, error: Exception) -> None:
    """Once for what looks like the same fault: by the place and the message's first words."""
    import hlo_remat

    place = traceback.extract_tb(error.__traceback__)[-1]
    said = str(error).splitlines()[0] if str(error) else ""
    kind = f"{type(error).__name__} {place.filename}:{place.lineno} {said.split(':')[0]}"
    name = hashlib.sha256(kind.encode()).hexdigest()[:8]
    if (folder / f"found-{name}.py").exists():
        return
    text = "".join(traceback.format_exception(error))
    (folder / f"found-{name}.py").write_text(_script(program, x64, text))
    import jax

    with jax.enable_x64(x64):
        lowered = jax.jit(program.function(hlo_remat.checkpoint)).lower(*program.arguments())
    run = "// RUN: hlo-remat-opt --hlo-remat-pipeline --hlo-remat-verify %s | FileCheck %s\n"
    (folder / f"found-{name}.mlir").write_text(
        f"{run}// CHECK: func.func public @main\n{lowered.as_text()}"
    )


if __name__ == "__main__":
    sys.exit(main())
