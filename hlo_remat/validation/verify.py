# SPDX-License-Identifier: Apache-2.0
"""`verify`: whether two modules compute the same, proven by value numbering."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxlib.mlir import ir

from hlo_remat import _compat, module_io
from hlo_remat.diagnostics import Diagnostic, Severity, note
from hlo_remat.validation.numbering import Numbering
from hlo_remat.validation.rules import RULES
from hlo_remat.validation.terms import NotProvable, Terms


@dataclasses.dataclass(frozen=True)
class Verification:
    """Whether two modules are proven to compute the same; if not, the first place where the proof
    fails. True in an `if` when proven."""

    failure: Diagnostic | None

    @property
    def proven(self) -> bool:
        return self.failure is None

    def __bool__(self) -> bool:
        return self.proven

    def __str__(self) -> str:
        return "proven" if self.failure is None else str(self.failure)


def verify(before: Any, after: Any) -> Verification:
    """Proves that `after` computes what `before` does, or says where the proof fails.

    Every public function must have the same signature and, over the same arguments, the same
    results bit for bit, where its loops end, and the same effects in the same order. Values are
    numbered in both modules at once; a fence, a marker and a call are what their functions compute,
    a loop is the streams of its carries, and a row read from a stack is what was written there.
    Nothing is taken from the passes, or from what markers say of themselves.

    Args:
      before, after: what `jax.jit(f).lower(...)` returns, MLIR modules, StableHLO text, or bytes.

    Returns:
      A `Verification`. One that isn't proven may still be right: the proof is of what rewrites do
      that recompute, not of all equalities.

    Raises:
      DiagnosticError: where a module can't be parsed.
      TypeError: where an argument is none of these kinds.
    """
    context = _compat.make_context()
    modules = [_read(x, context) for x in (before, after)]
    return verify_operations(*(module.operation for module in modules))


def _read(x: Any, context: ir.Context) -> ir.Module:
    if _compat.is_lowered(x):
        x = x.compiler_ir("stablehlo")
    module, _ = module_io.read(x)
    return ir.Module.parse(module_io.bytecode(module), context)


def verify_operations(before: ir.Operation, after: ir.Operation) -> Verification:
    """`verify` for two `builtin.module` ops of one context."""
    try:
        with before.context:
            return Verification(_first_difference(before, after))
    except NotProvable as reason:
        return Verification(_failure(after, str(reason)))
    except RecursionError:
        return Verification(_failure(after, "ops are nested too deeply"))


def _first_difference(before: ir.Operation, after: ir.Operation) -> Diagnostic | None:
    terms = Terms(RULES)
    old, new = Numbering(before, terms), Numbering(after, terms)
    attributes = ({k: hash(op.attributes[k]) for k in op.attributes} for op in (before, after))
    if (where := _differing(*attributes)) is not None:
        return _failure(after, f"attribute '{where}' of the module differs")
    public = [name for name, f in old.functions.items() if _is_public(f)]
    if public != [name for name, f in new.functions.items() if _is_public(f)]:
        return _failure(after, "the modules have other public functions")
    for name in public:
        first, second = old.functions[name], new.functions[name]
        if (where := _differing(old.signature(name), new.signature(name))) is not None:
            return _failure(second, f"attribute '{where}' of function '{name}' differs")
        if not len(first.regions[0].blocks) and not len(second.regions[0].blocks):
            continue
        results = old.results(name), new.results(name)
        pairs = list(zip(*results, strict=True))
        for k, (a, b) in enumerate(pairs):
            if a != b:
                what = f"result {k}" if k < len(pairs) - 1 else "the order of effects"
                return _explain(terms, a, b, f"{what} of function '{name}'", second)
    return None


def _is_public(function: ir.Operation) -> bool:
    attributes = function.attributes
    return "sym_visibility" not in attributes or (
        ir.StringAttr(attributes["sym_visibility"]).value == "public"
    )


def _differing(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    """A key at which two dictionaries differ."""
    return next((k for k in {**first, **second} if first.get(k) != second.get(k)), None)


def _failure(op: ir.Operation, message: str, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
    return Diagnostic(Severity.ERROR, f"not proven: {message}", op.location, notes)


def _explain(terms: Terms, a: int, b: int, what: str, function: ir.Operation) -> Diagnostic:
    """Where two terms begin to differ: down from a result by the first operand that differs."""
    path: list[tuple[int, int, int]] = []
    while terms.head[a] == terms.head[b] and len(terms.children[a]) == len(terms.children[b]):
        children = zip(terms.children[a], terms.children[b], strict=True)
        k, (inner_a, inner_b) = next(e for e in enumerate(children) if e[1][0] != e[1][1])
        path.append((a, b, k))
        a, b = inner_a, inner_b
    notes = []
    for side, term, number in (("before", a, 0), ("after", b, 1)):
        chain = [term, *(step[number] for step in reversed(path))]
        level, op = next(
            ((n, terms.source[t]) for n, t in enumerate(chain) if t in terms.source), (0, None)
        )
        if op is None:
            notes.append(note(None, f"{side}: {_describe(terms, term)}"))
            continue
        operation = op.operation
        where = f", operand {path[-level][2]}, is {_describe(terms, term)}" if level else ""
        notes.append(note(operation.location, f"{side}: '{operation.name}'{where}"))
    return _failure(function, f"{what} differs", tuple(notes))


def _describe(terms: Terms, term: int) -> str:
    words = {
        "argument": "an argument",
        "at": "what a loop carries",
        "case": "the result of a branch",
        "global": "the result of a manual computation",
        "integer": "an integer",
        "last": "the result of a loop",
        "local": "an argument of a manual computation",
        "world": "no effect before",
    }
    kind = terms.kind(term)
    if kind == "argument":
        return f"argument {terms.data(term)[1]}"
    return words.get(kind, f"'{kind}'")
