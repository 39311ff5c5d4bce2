# SPDX-License-Identifier: Apache-2.0
"""Errors, warnings and remarks with their place in a module.

jaxlib's bindings can emit errors only (remarks from 0.12 on), so the passes report here and
whoever runs them (the tool, `apply`, a test) decides what becomes of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.ir.location import describe_location


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One message. `location` is MLIR's, or None where there is none to give."""

    severity: Severity
    message: str
    location: ir.Location | None = None
    notes: tuple[Diagnostic, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"{describe_location(self.location)}: {self.severity.value}: {self.message}"
        for note in self.notes:
            yield from note.lines()

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Diagnostics:
    """Collects what the passes say while they run over one module.

    `analyses` is what a pass leaves to the one that runs directly after it, by function: see
    `hlo_remat.passes.pipeline`, which empties it in all other cases. `proven` is a copy of the
    module as it was when a proof of all that came before was made, or when the pipeline began.
    """

    def __init__(self) -> None:
        self.analyses: dict[int, Any] = {}
        self.proven: ir.Operation | None = None
        self.all: list[Diagnostic] = []
        self._remarks: set[tuple[str, str]] = set()

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.all if d.severity is Severity.ERROR]

    def error(self, at: ir.Location | None, message: str, notes: Sequence[Diagnostic] = ()) -> None:
        self.all.append(Diagnostic(Severity.ERROR, message, at, tuple(notes)))

    def warning(
        self, at: ir.Location | None, message: str, notes: Sequence[Diagnostic] = ()
    ) -> None:
        self.all.append(Diagnostic(Severity.WARNING, message, at, tuple(notes)))

    def remark(
        self, at: ir.Location | None, message: str, notes: Sequence[Diagnostic] = ()
    ) -> None:
        """A remark is made once, though a pass may come to the same place again."""
        if (message, str(at)) not in self._remarks:
            self._remarks.add((message, str(at)))
            self.all.append(Diagnostic(Severity.REMARK, message, at, tuple(notes)))

    @contextlib.contextmanager
    def capture(self, context: ir.Context) -> Iterator[None]:
        """Collects here what MLIR itself (parser, verifier, native passes) says meanwhile."""

        def collect(native: Any) -> bool:
            self.all.append(_from_native(native))
            return True

        # Otherwise jaxlib keeps errors back for its exceptions and handlers see nothing.
        kept_back, context.emit_error_diagnostics = not context.emit_error_diagnostics, True
        handler: Any = context.attach_diagnostic_handler(collect)
        try:
            yield
        finally:
            handler.detach()
            context.emit_error_diagnostics = not kept_back


def _from_native(native: Any) -> Diagnostic:
    return Diagnostic(
        Severity(native.severity.name.lower()),
        _message(native),
        native.location,
        tuple(_from_native(note) for note in native.notes),
    )


def _message(native: Any) -> str:
    try:
        return native.message
    except RuntimeError:
        # MLIR quotes names as they are, and they may be any bytes.
        return "invalid here (the message quotes a name that is not valid UTF-8)"


def note(at: ir.Location | None, message: str) -> Diagnostic:
    return Diagnostic(Severity.NOTE, message, at)
