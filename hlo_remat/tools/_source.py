# SPDX-License-Identifier: Apache-2.0
"""The input of hlo-remat-opt: reading it, splitting it, and quoting it in diagnostics."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import os
import re

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.diagnostics import Diagnostic
from hlo_remat.ir.location import describe_location, file_line_col
from hlo_remat.module_io import check_depth

_BYTECODE = b"ML\xefR"
_PORTABLE_ARTIFACT = re.compile(rb"ML\xefR[^\0]{1,9}?StableHLO_v")
# What jaxlib calls the file of a module that it parses from memory.
_MEMORY_BUFFER = "-"


@dataclasses.dataclass(frozen=True)
class Source:
    """An input file, or one chunk of it: text, MLIR bytecode or a StableHLO portable artifact."""

    path: str
    data: bytes
    is_chunk: bool = False

    @property
    def name(self) -> str:
        return "<stdin>" if self.path == "-" else self.path

    @property
    def is_text(self) -> bool:
        return not self.data.startswith(_BYTECODE)

    @functools.cached_property
    def lines(self) -> list[str]:
        return self.data.decode(errors="replace").split("\n") if self.is_text else []

    def parse(self, context: ir.Context) -> ir.Module:
        """Raises MLIRError or ValueError; why is left to the context's diagnostics."""
        if _PORTABLE_ARTIFACT.match(self.data):
            return stablehlo.deserialize_portable_artifact(context, self.data)
        if self.is_text:
            check_depth(self.data)
        if not self.is_chunk and os.path.isfile(self.path):
            # From the file and not from memory, for the file's name in the locations.
            return ir.Module.parseFile(self.path, context)
        return ir.Module.parse(self.data, context)

    def chunks(self, marker: str) -> list[Source]:
        """The parts between lines that consist of `marker`, each with true line numbers."""
        if not self.is_text:
            return [self]
        chunks: list[list[bytes]] = [[]]
        lines = self.data.split(b"\n")
        for number, line in enumerate(lines):
            if line.rstrip() == marker.encode():
                chunks.append([b""] * (number + 1))
            else:
                chunks[-1].append(line)
        return [Source(self.path, b"\n".join(chunk), is_chunk=True) for chunk in chunks]

    def line_of(self, location: ir.Location | None) -> int | None:
        """The line of this input that `location` is at, if it is in this input."""
        place = file_line_col(location)
        return place[1] if place and place[0] in (_MEMORY_BUFFER, self.path) else None

    def quote(self, diagnostic: Diagnostic) -> str:
        """`diagnostic` and its notes with the lines that they are about, as clang shows them."""
        parts = [self._quote_one(diagnostic), *(self.quote(note) for note in diagnostic.notes)]
        return "\n".join(parts)

    def _quote_one(self, diagnostic: Diagnostic) -> str:
        kind_and_message = f"{diagnostic.severity.value}: {diagnostic.message}"
        place = file_line_col(diagnostic.location)
        if place is None:
            return f"{describe_location(diagnostic.location)}: {kind_and_message}"
        file, line, column = place
        if self.line_of(diagnostic.location) is None:
            quoted = linecache.getline(file, line).rstrip("\n")
        else:
            file = self.name
            quoted = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        heading = f"{file}:{line}:{column}: {kind_and_message}"
        if not quoted.strip():
            return heading
        # Tabs stay tabs, so that the caret stands where the terminal shows the column.
        indent = re.sub(r"[^\t]", " ", quoted[: column - 1])
        return f"{heading}\n{quoted}\n{indent}^"


def read_source(path: str) -> Source:
    """Reads a file, or stdin for `-`. Raises OSError."""
    with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
        return Source(path, file.read())
