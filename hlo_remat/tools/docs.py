# SPDX-License-Identifier: Apache-2.0
"""Writes docs/passes.md from the declarations of the passes; `--check` fails if it is stale."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hlo_remat import passes
from hlo_remat.passes.base import Pass
from hlo_remat.passes.options import declared_options

_DEFAULT_PATH = Path(__file__).parents[2] / "docs" / "passes.md"
_HEADING = """\
<!-- Written by `python -m hlo_remat.tools.docs` from the pass declarations. Do not edit. -->
# Passes

In the order of the default pipeline. Options go into the pipeline as `pass{option=value}`
or after the flag of the pass as `--pass='option=value'`; see [tool.md](tool.md).
"""


def summary(pass_type: type[Pass]) -> str:
    """The first line of the documentation of a pass."""
    return _documentation(pass_type)[0]


def passes_markdown() -> str:
    """The text of docs/passes.md."""
    sections = ("\n".join(_section(pass_type)) for pass_type in passes.PASSES)
    pipelines = (
        f"## `{pipeline.name}`\n\n{pipeline.summary} Its options are those of its passes.\n"
        for pipeline in passes.PIPELINES
    )
    return "\n".join([_HEADING, *sections, *pipelines])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hlo_remat.tools.docs", description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=_DEFAULT_PATH)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    flags = parser.parse_args(argv)
    text = passes_markdown()
    if not flags.check:
        flags.path.write_text(text)
    elif not flags.path.exists() or flags.path.read_text() != text:
        print(f"{flags.path} is stale: run `python -m hlo_remat.tools.docs`", file=sys.stderr)
        return 1
    return 0


def _documentation(pass_type: type[Pass]) -> tuple[str, str]:
    first, _, rest = (inspect.getdoc(pass_type) or "").partition("\n")
    return first, rest.strip("\n")


def _section(pass_type: type[Pass]) -> Iterator[str]:
    first, rest = _documentation(pass_type)
    yield f"## `{pass_type.name}`\n\n{first}\n"
    if rest:
        yield f"{rest}\n"
    options = declared_options(pass_type)
    if options:
        yield "| option | value | default | |\n| --- | --- | --- | --- |"
    for option in options:
        kind = option.kind.replace("|", r"\|")
        yield f"| `{option.name}` | {kind} | {option.default_text} | {option.help} |"
    if options:
        yield ""


if __name__ == "__main__":
    sys.exit(main())
