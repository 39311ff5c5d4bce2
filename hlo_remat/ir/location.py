# SPDX-License-Identifier: Apache-2.0
"""From MLIR locations to places that a person can find."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

# The first string in a printed location, where `"`, `\` and non-ASCII bytes are escaped.
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\([0-9A-F]{2}|.)")


def _quoted(location: ir.Location) -> str:
    """The file or name of a location; jaxlib's properties abort if it isn't valid UTF-8."""

    def unescape(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if len(match[1]) == 2 else match[1]

    found = _QUOTED.search(str(location).encode())
    return _ESCAPED.sub(unescape, found[1]).decode(errors="replace") if found else ""


def _frames(location: ir.Location) -> Iterator[ir.FileLineColLoc]:
    """File locations in `location`, innermost first."""
    # Not every location comes from jaxlib as an object of its own class.
    exact: Any = ir.Location.from_attr(location.attr, location.context)
    if isinstance(exact, ir.FileLineColLoc):
        yield exact
    elif isinstance(exact, ir.NameLoc):
        yield from _frames(exact.child_loc)
    elif isinstance(exact, ir.CallSiteLoc):
        yield from _frames(exact.callee)
        yield from _frames(exact.caller)
    elif isinstance(exact, ir.FusedLoc):
        parts: list[Any] = exact.locations
        for part in parts:
            yield from _frames(part)


def file_line_col(location: ir.Location | None) -> tuple[str, int, int] | None:
    """File, line and column of the innermost frame, or None where there is none."""
    frame = None if location is None else next(_frames(location), None)
    if frame is None:
        return None
    return _quoted(frame), frame.start_line, frame.start_col


def op_path(location: ir.Location | None) -> str | None:
    """JAX's name stack for an op, such as `jit(f)/block/dot_general`, if the op carries one."""
    if location is None:
        return None
    exact: Any = ir.Location.from_attr(location.attr, location.context)
    if isinstance(exact, ir.CallSiteLoc):
        return op_path(exact.callee)
    if isinstance(exact, ir.FusedLoc):
        parts: list[Any] = exact.locations
        return ";".join(filter(None, map(op_path, parts))) or None
    return _quoted(exact) if isinstance(exact, ir.NameLoc) else None


def describe_location(location: ir.Location | None) -> str:
    """`file:line:col`, or the op's name path, or `<unknown>`."""
    place = file_line_col(location)
    if place is not None:
        return "{}:{}:{}".format(*place)
    return op_path(location) or "<unknown>"


def with_scope(location: ir.Location, scope: str, path: str) -> ir.Location:
    """`location` with the name path of its op under `scope`, without what it shares with `path`."""
    own = (op_path(location) or "").split("/")
    pairs = zip(own[:-1], path.split("/"), strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    exact: Any = ir.Location.from_attr(location.attr, location.context)
    child = exact.child_loc if isinstance(exact, ir.NameLoc) else location
    name = "/".join(filter(None, [scope, *own[shared:]]))
    return ir.Location.name(name, child, location.context)
