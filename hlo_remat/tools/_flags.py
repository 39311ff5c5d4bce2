# SPDX-License-Identifier: Apache-2.0
"""The command line of hlo-remat-opt: flags only, in the names that mlir-opt gave them."""

from __future__ import annotations

import argparse
import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from hlo_remat import passes
from hlo_remat.passes.base import Pass
from hlo_remat.passes.options import declared_options
from hlo_remat.tools.docs import summary

# Native passes with a flag of their own. A pipeline may name any pass that jaxlib has.
NATIVE_MODULE_PASSES = {
    "canonicalize": "canonicalizes operations",
    "cse": "eliminates common sub-expressions",
    "inline": "inlines function calls",
    "loop-invariant-code-motion": "moves operations out of loops",
    "print-op-stats": "prints how often each operation occurs",
    "sccp": "propagates constants",
    "strip-debuginfo": "removes locations",
    "symbol-dce": "removes symbols that nothing uses",
    "stablehlo-convert-to-signless": "makes integers signless",
    "stablehlo-legalize-to-vhlo": "converts StableHLO to VHLO",
    "stablehlo-refine-arguments": "refines the argument types of main",
    "stablehlo-refine-shapes": "refines shapes throughout the module",
    "stablehlo-wrap-in-composite": "wraps operations in composites",
    "vhlo-legalize-to-stablehlo": "converts VHLO to StableHLO",
}
NATIVE_FUNCTION_PASSES = {
    "chlo-legalize-to-stablehlo": "converts CHLO to StableHLO",
    "stablehlo-canonicalize-dynamism": "makes dynamic operations static where it can",
    "stablehlo-complex-math-expander": "expands complex arithmetic",
    "stablehlo-legalize-composite-to-call": "replaces composites by calls",
}
_NATIVE = dict(sorted((NATIVE_MODULE_PASSES | NATIVE_FUNCTION_PASSES).items()))

# LLVM's flags take an optional value only after `=`: `--cse file.mlir` is a flag and a file.
_VALUE_OF_BARE_FLAG = {
    "--split-input-file": "// -----",
    "--verify-diagnostics": "all",
    "--verify-each": "true",
}

_SWITCHES = {
    "allow-unregistered-dialect": "accept operations of unknown dialects",
    "emit-bytecode": "write MLIR bytecode instead of text",
    "verify-roundtrip": "check that the output, parsed again, prints the same",
    "dump-pass-pipeline": "print the pipeline to stderr before running it",
    "list-passes": "list the passes and exit",
    "mlir-disable-threading": "for compatibility: the tool never uses threads",
    "mlir-timing": "report the time of each pass on stderr",
    "mlir-print-debuginfo": "print locations",
    "mlir-pretty-debuginfo": "print locations in a form for people, that can't be parsed",
    "mlir-print-local-scope": "print types and attributes in full, without aliases",
    "mlir-print-op-generic": "print operations in the generic form",
    "mlir-use-nameloc-as-prefix": "name values after their locations",
    "mlir-print-ir-before-all": "print the IR to stderr before each pass",
    "mlir-print-ir-after-all": "print the IR to stderr after each pass",
    "mlir-print-ir-after-change": "print the IR to stderr after each pass that changed it",
    "mlir-print-ir-after-failure": "print the IR to stderr after a pass that failed",
    "mlir-print-ir-module-scope": "with --mlir-print-ir-*: always print the whole module",
}


def parse_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. Exits with 2, as argparse does, if it makes no sense."""
    parser = _parser()
    flags = parser.parse_args([_normalized(argument) for argument in argv])
    if flags.pass_pipeline is not None and flags.passes:
        parser.error("'--pass-pipeline' can't be used with individual pass flags")
    if flags.emit_bytecode and flags.split_input_file is not None:
        parser.error("'--emit-bytecode' can't be used with '--split-input-file'")
    return flags


def pass_list(*, with_options: bool) -> str:
    """The passes by name, ours before the native ones, with their summaries."""
    lines = ["hlo_remat's passes, in the order of the default pipeline:"]
    for pass_type in passes.PASSES:
        lines.append(_entry(pass_type.name, summary(pass_type)))
        if with_options:
            lines += _option_lines(pass_type)
    lines += ["", "pipelines, with the options of their passes:"]
    lines += [_entry(pipeline.name, pipeline.summary) for pipeline in passes.PIPELINES]
    lines += ["", "native passes:"]
    lines += [_entry(name, help) for name, help in _NATIVE.items()]
    return "\n".join(lines)


def _entry(name: str, help: str) -> str:
    return f"  --{name:<38} {help}"


def _option_lines(pass_type: type[Pass]) -> list[str]:
    return [
        f"      {f'{option.name}=<{option.kind}>':<36} {option.help} "
        f"(default: {option.default_text})"
        for option in declared_options(pass_type)
    ]


def _normalized(argument: str) -> str:
    """LLVM accepts `-flag` and `--flag` alike, and so do we; argparse would see `-f`."""
    if re.match(r"-[A-Za-z][\w-]", argument):
        argument = f"-{argument}"
    if argument in _VALUE_OF_BARE_FLAG:
        return f"{argument}={_VALUE_OF_BARE_FLAG[argument]}"
    return f"{argument}=" if argument.removeprefix("--") in _flagged_passes() else argument


def _flagged_passes() -> list[str]:
    pipelines = [pipeline.name for pipeline in passes.PIPELINES]
    return [pass_type.name for pass_type in passes.PASSES] + pipelines + list(_NATIVE)


class _AppendPass(argparse.Action):
    """`--name=options` as an element of a pipeline."""

    def __call__(self, parser: Any, flags: Any, options: Any, flag: str | None = None) -> None:
        name = str(flag).removeprefix("--")
        element = f"{name}{{{options}}}" if options else name
        if name in NATIVE_FUNCTION_PASSES:
            element = f"func.func({element})"
        flags.passes = [*flags.passes, element]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hlo-remat-opt",
        usage="%(prog)s [flags] [input]",
        description="Runs passes over a StableHLO module: text, bytecode or portable artifact.",
        epilog=f"{pass_list(with_options=True)}\n\n"
        "A pass is also a flag, with its options as one value: --pass='option=value option=value'.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="input file (default: stdin)")
    add("-o", dest="output", metavar="FILE", default="-", help="output file (default: stdout)")
    add("--pass-pipeline", "-p", metavar="TEXT", help="passes to run, as builtin.module(...)")
    add("--split-input-file", metavar="MARKER", help="process the parts between marker lines apart")
    add("--output-split-marker", metavar="MARKER", default="// -----", help="joins them again")
    add(
        "--verify-diagnostics",
        choices=("all", "only-expected"),
        help="check diagnostics against expected-* comments",
    )
    add("--verify-each", type=_boolean, default=True, metavar="BOOL", help="verify after each pass")
    add("--mlir-elide-elementsattrs-if-larger", type=_natural, metavar="N", help="shorten tensors")
    add("--mlir-elide-resource-strings-if-larger", type=_natural, metavar="N", help="... and blobs")
    add("--mlir-print-ir-tree-dir", metavar="DIR", help="write --mlir-print-ir-* to files in DIR")
    for name, help in _SWITCHES.items():
        add(f"--{name}", action="store_true", help=help)
    add("--version", action="version", version=_versions())
    for name in _flagged_passes():
        add(f"--{name}", action=_AppendPass, dest="passes", default=[], help=argparse.SUPPRESS)
    return parser


def _boolean(text: str) -> bool:
    if text not in ("true", "1", "false", "0"):
        raise argparse.ArgumentTypeError(f"'{text}' is not true, false, 1 or 0")
    return text in ("true", "1")


def _natural(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of elements")
    return int(text)


def _versions() -> str:
    version = importlib.metadata.version
    return (
        f"hlo-remat-opt {version('hlo-remat')} (jax {version('jax')}, jaxlib {version('jaxlib')}, "
        f"StableHLO {stablehlo.get_current_version()})"
    )
