# SPDX-License-Identifier: Apache-2.0
"""From MLIR locations to places that a person can find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir


def _frames(location: ir.Location) -> Iterator[ir.FileLineColLoc]:
    """File locations in `location`, innermost first."""
    # Not every location comes from jaxlib as an object of its own class.
    exact: Any = ir.Location.from_attr(location.attr, location.context)
    if isinstance(exact, ir.FileLineColLoc):
        yield exact
    elif isinstance(exact, ir.NameLoc):
        child: Any = exact.child_loc
        yield from _frames(child)
    elif isinstance(exact, ir.CallSiteLoc):
        yield from _frames(exact.callee)
        yield from _frames(exact.caller)
    elif isinstance(exact, ir.FusedLoc):
        for part in exact.locations:
            yield from _frames(part)


def file_line_col(location: ir.Location | None) -> tuple[str, int, int] | None:
    """File, line and column of the innermost frame, or None where there is none."""
    frame = None if location is None else next(_frames(location), None)
    return None if frame is None else (frame.filename, frame.start_line, frame.start_col)


def op_path(location: ir.Location | None) -> str | None:
    """JAX's name stack for an op, such as `jit(f)/block/dot_general`, if the op carries one."""
    if location is None:
        return None
    location = ir.Location.from_attr(location.attr, location.context)
    return location.name_str if isinstance(location, ir.NameLoc) else None


def describe_location(location: ir.Location | None) -> str:
    """`file:line:col`, or the op's name path, or `<unknown>`."""
    place = file_line_col(location)
    if place is not None:
        return "{}:{}:{}".format(*place)
    return op_path(location) or "<unknown>"
