# SPDX-License-Identifier: Apache-2.0
"""Garbled modules and pipelines: `python -m hlo_remat.testing.fuzz_input --minutes 60 a.mlir ...`.

Whatever hlo-remat-opt is given, it returns 0, 1 or 2 and never raises. Inputs run in a process of
their own, so that one that ends it is found too.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence

from hlo_remat import module_io
from hlo_remat.errors import HloRematError
from hlo_remat.tools.opt import main as run_tool

_BATCH = 200  # inputs of one process
_PIPELINES = (
    "builtin.module(hlo-remat-pipeline,hlo-remat-verify)",
    "builtin.module(hlo-remat-inline,hlo-remat-partition{policy=dots_saveable},hlo-remat-strip)",
    "builtin.module(hlo-remat-partition{policy=save_only_these_names names=a,b},symbol-dce)",
    "builtin.module(hlo-remat-lower-recompute{strategy=case scope=recompute},func.func(cse))",
)
_TOKENS = re.compile(rb"[\w.@%#\"]+|\s+|.", re.DOTALL)


def garbled(data: bytes, chooser: random.Random) -> bytes:
    """`data` with a few of its tokens, or of its bytes if it is no text, lost, doubled or moved."""
    is_text = not data.startswith(b"ML\xef")
    parts = _TOKENS.findall(data) if is_text else [data[k : k + 1] for k in range(len(data))]
    for _ in range(chooser.choice((1, 1, 2, 5))):
        at, other = chooser.randrange(len(parts)), chooser.randrange(len(parts))
        change = chooser.randrange(6)
        if change == 0:
            del parts[at : at + chooser.choice((1, 1, 10, 100))]
        elif change == 1:
            parts.insert(at, parts[other])
        elif change == 2:
            parts[at] = parts[other]
        elif change == 3:
            parts[at] = bytes([chooser.randrange(256)])
        elif change == 4:
            parts[at] = chooser.choice((b"-1", b"99999999999999999999", b"{", b"}", b'"', b"\0"))
        else:
            del parts[at:]
        parts = parts or [b" "]
    return b"".join(parts)


def cases(seeds: Sequence[bytes], seed: int) -> tuple[bytes, str]:
    """The input and the pipeline of a number."""
    chooser = random.Random(seed)
    data, pipeline = chooser.choice(seeds), chooser.choice(_PIPELINES)
    if chooser.random() < 0.15:
        return data, garbled(pipeline.encode(), chooser).decode(errors="replace")
    return garbled(data, chooser), pipeline


def check(data: bytes, pipeline: str, folder: pathlib.Path) -> None:
    """Raises AssertionError, or whatever escaped from the tool."""
    source, output = folder / "in.mlir", folder / "out.mlir"
    source.write_bytes(data)
    output.unlink(missing_ok=True)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code: object = run_tool([str(source), f"--pass-pipeline={pipeline}", "-o", str(output)])
        except SystemExit as error:
            code = error.code
    assert code in (0, 1, 2), code
    assert (code == 0) == output.exists(), "an output in spite of an error, or none without"
    assert code == 0 or "error: " in said.getvalue(), "it failed and said nothing"


def seeds_of(paths: Sequence[pathlib.Path]) -> list[bytes]:
    """The modules in files, each also as bytecode."""
    found = []
    for path in paths:
        for text in path.read_bytes().split(b"// -----\n"):
            with contextlib.suppress(HloRematError):
                found += [text, module_io.bytecode(module_io.parse(text))]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hlo_remat.testing.fuzz_input", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="+", type=pathlib.Path, help="files to garble")
    flags = parser.parse_args(argv)
    return _batch(flags) if flags.batch else _supervise(flags)


def _batch(flags: argparse.Namespace) -> int:
    """Tries inputs one after the other; the number of each is printed before it is tried."""
    seeds, failed = seeds_of(flags.modules), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(flags.seed, flags.seed + _BATCH):
            print(number, flush=True)
            try:
                check(*cases(seeds, number), pathlib.Path(folder))
            except Exception:
                failed = 1
                print(f"input {number}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    return failed


def _supervise(flags: argparse.Namespace) -> int:
    end, number, found = time.monotonic() + 60 * flags.minutes, flags.seed, 0
    while time.monotonic() < end:
        command = [sys.executable, "-m", "hlo_remat.testing.fuzz_input", "--batch"]
        command += ["--seed", str(number), *map(str, flags.modules)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        last = int(done.stdout.split()[-1])
        if done.returncode < 0:
            print(f"input {last} ended the process with signal {-done.returncode}", flush=True)
        found += done.returncode != 0
        number = last + 1
        print(f"{number - flags.seed} inputs, {found} findings", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
