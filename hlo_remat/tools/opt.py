# SPDX-License-Identifier: Apache-2.0
"""hlo-remat-opt: runs passes over a module in a file, as mlir-opt does.

Exit code: 0, or 1 if there was an error (nothing is written then), or 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo_remat._compat import make_context
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.errors import DiagnosticError, PipelineError
from hlo_remat.passes.pipeline import Pipeline, parse_pipeline
from hlo_remat.tools._expected import check_expected
from hlo_remat.tools._flags import parse_flags, pass_list
from hlo_remat.tools._source import Source, read_source


def main(argv: Sequence[str] | None = None) -> int:
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on. Python flushes stdout at exit once more: that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(argv: Sequence[str]) -> int:
    flags = parse_flags(argv)
    if flags.list_passes:
        print(pass_list(with_options=False))
        return 0
    text = flags.pass_pipeline
    if text is None:
        text = f"builtin.module({','.join(flags.passes)})"
    try:
        pipeline = parse_pipeline(text)
    except PipelineError as error:
        _say(str(error))
        return 2
    if flags.dump_pass_pipeline:
        _say(f"Pass Manager with {len(pipeline.elements)} passes:\n{pipeline}")
    try:
        source = read_source(flags.input)
    except OSError as error:
        _say(f"hlo-remat-opt: error: cannot open input file '{flags.input}': {error.strerror}")
        return 1
    return _process(source, pipeline, flags)


def _process(source: Source, pipeline: Pipeline, flags: argparse.Namespace) -> int:
    marker = flags.split_input_file
    chunks = [source] if marker is None else source.chunks(marker)
    results = [_process_chunk(chunk, pipeline, flags) for chunk in chunks]
    outputs = [output for output in results if output is not None]
    if len(outputs) < len(results):
        return 1
    try:
        _write(flags.output, f"{flags.output_split_marker}\n".encode().join(outputs))
    except BrokenPipeError:
        raise
    except OSError as error:
        _say(f"hlo-remat-opt: error: cannot open output file '{flags.output}': {error.strerror}")
        return 1
    return 0


def _process_chunk(source: Source, pipeline: Pipeline, flags: argparse.Namespace) -> bytes | None:
    """The output for `source`, or None after an error (said on stderr)."""
    context = make_context()
    context.allow_unregistered_dialects = flags.allow_unregistered_dialect
    diagnostics = Diagnostics()
    module = _parse(source, context, diagnostics)
    if module is not None:
        module = _transform(module, pipeline, diagnostics, flags)
    output = b"" if module is None else _printed(module, flags)
    if module is not None and flags.verify_roundtrip:
        _check_roundtrip(source, output, module, diagnostics, flags)

    problems = diagnostics.all
    if flags.verify_diagnostics:
        only_expected = flags.verify_diagnostics == "only-expected"
        problems = check_expected(source, diagnostics.all, context, only_expected)
    for problem in problems:
        _say(source.quote(problem))
    failed = problems if flags.verify_diagnostics else diagnostics.errors
    return None if failed else output


def _parse(source: Source, context: ir.Context, diagnostics: Diagnostics) -> ir.Module | None:
    with diagnostics.capture(context):
        try:
            return source.parse(context)
        except (ir.MLIRError, MemoryError, ValueError) as error:
            reason = str(error)
    if not diagnostics.errors:
        diagnostics.error(ir.Location.file(source.path, 0, 0, context), reason)
    return None


def _transform(
    module: ir.Module, pipeline: Pipeline, diagnostics: Diagnostics, flags: argparse.Namespace
) -> ir.Module | None:
    try:
        pipeline.run(
            module,
            diagnostics=diagnostics,
            verify_each=flags.verify_each,
            ir_printing=_ir_printing(flags),
            timing=flags.mlir_timing,
        )
    except DiagnosticError:
        return None
    return module


def _check_roundtrip(
    source: Source,
    output: bytes,
    module: ir.Module,
    diagnostics: Diagnostics,
    flags: argparse.Namespace,
) -> None:
    again = _parse(Source(source.path, output, is_chunk=True), module.context, diagnostics)
    if again is not None and _printed(again, flags) != output:
        message = "the output, parsed again, prints differently"
        diagnostics.error(module.operation.location, message)


def _printed(module: ir.Module, flags: argparse.Namespace) -> bytes:
    if flags.emit_bytecode:
        file = io.BytesIO()
        module.operation.write_bytecode(file)
        return file.getvalue()
    text: Any = module.operation.get_asm(
        binary=True,
        pretty_debug_info=flags.mlir_pretty_debuginfo,
        use_local_scope=flags.mlir_print_local_scope,
        use_name_loc_as_prefix=flags.mlir_use_nameloc_as_prefix,
        **_common_printing(flags),
    )
    return text.rstrip(b"\n") + b"\n"


def _common_printing(flags: argparse.Namespace) -> dict[str, Any]:
    return {
        "enable_debug_info": flags.mlir_print_debuginfo or flags.mlir_pretty_debuginfo,
        "print_generic_op_form": flags.mlir_print_op_generic,
        "large_elements_limit": flags.mlir_elide_elementsattrs_if_larger,
        "large_resource_limit": flags.mlir_elide_resource_strings_if_larger,
    }


def _ir_printing(flags: argparse.Namespace) -> dict[str, Any] | None:
    only_after = {
        "print_after_change": flags.mlir_print_ir_after_change,
        "print_after_failure": flags.mlir_print_ir_after_failure,
    }
    when = {
        "print_before_all": flags.mlir_print_ir_before_all,
        # The other two say which of these to leave out; on their own they print nothing.
        "print_after_all": flags.mlir_print_ir_after_all or any(only_after.values()),
    }
    if not any(when.values()):
        return None
    where = {
        "print_module_scope": flags.mlir_print_ir_module_scope,
        "tree_printing_dir_path": flags.mlir_print_ir_tree_dir,
    }
    return when | only_after | where | _common_printing(flags)


def _write(path: str, data: bytes) -> None:
    """Writes all of `data` or, for a regular file, nothing."""
    path = os.path.realpath(path) if path != "-" else path
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        with open(1 if path == "-" else path, "wb", closefd=path != "-") as device:
            device.write(data)
        return
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def _say(message: str) -> None:
    print(message, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
