# SPDX-License-Identifier: Apache-2.0
"""Modules in the forms that users have them, and back into the same form."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat import _compat
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.errors import DiagnosticError

_PORTABLE_ARTIFACT = re.compile(rb"ML\xefR[^\0]{1,9}?StableHLO_v(\d+\.\d+\.\d+)")

_MAX_DEPTH = 1000


def read(x: Any) -> tuple[ir.Module, Callable[[ir.Module], Any]]:
    """A copy of `x` as a module, and the function that brings a module into the form of `x`.

    `x` is a module, StableHLO text, MLIR bytecode or a StableHLO portable artifact. Raises
    TypeError for anything else, DiagnosticError where it can't be parsed.
    """
    if isinstance(x, ir.Module):
        return copy(x), lambda module: module
    if isinstance(x, str):
        debug_info = bool(re.search(r"\bloc\(", x))
        return parse(x), lambda m: m.operation.get_asm(enable_debug_info=debug_info)
    if not isinstance(x, bytes):
        raise TypeError(
            "expected what jax.jit(f).lower(...) returns, an MLIR module, StableHLO text, or bytes "
            f"(MLIR bytecode or a StableHLO portable artifact), got {type(x).__name__}"
        )
    artifact = _PORTABLE_ARTIFACT.match(x)
    if artifact is None:
        return parse(x), bytecode
    version = artifact[1].decode()
    return parse(x), lambda m: stablehlo.serialize_portable_artifact(m, version)


def copy(module: ir.Module) -> ir.Module:
    """A copy of a module in the same context."""
    return ir.Module.parse(bytecode(module), module.context)


def parse(source: str | bytes) -> ir.Module:
    """Parses text, bytecode or a portable artifact in a new context. Raises DiagnosticError."""
    context = _compat.make_context()
    diagnostics = Diagnostics()
    with diagnostics.capture(context):
        try:
            check_depth(source if isinstance(source, bytes) else source.encode())
            if isinstance(source, bytes) and _PORTABLE_ARTIFACT.match(source):
                return stablehlo.deserialize_portable_artifact(context, source)
            return ir.Module.parse(source, context)
        except (ir.MLIRError, MemoryError, ValueError) as error:
            reason = str(error)
    if not diagnostics.errors:
        diagnostics.error(None, reason)
    raise DiagnosticError(diagnostics.errors)


def check_depth(text: bytes) -> None:
    """Raises ValueError for text in which braces are nested so deeply that MLIR's parser, which
    recurses, would overflow the stack and end the process."""
    if text.count(b"{") <= _MAX_DEPTH:
        return
    depth = 0
    for brace in re.findall(rb"[{}]", text):
        depth += 1 if brace == b"{" else -1
        if depth > _MAX_DEPTH:
            raise ValueError(f"braces are nested more than {_MAX_DEPTH} deep")


def verify(module: ir.Module, diagnostics: Diagnostics) -> None:
    """Raises DiagnosticError where the module is invalid."""
    with diagnostics.capture(module.context):
        try:
            is_valid = module.operation.verify()
        except ir.MLIRError:
            is_valid = False
    if not is_valid:
        raise DiagnosticError(diagnostics.errors)


def bytecode(module: ir.Module) -> bytes:
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()
