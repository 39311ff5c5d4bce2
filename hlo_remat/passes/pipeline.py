# SPDX-License-Identifier: Apache-2.0
"""Pass pipelines: MLIR's textual form, with our passes and native ones side by side.

pipeline ::= 'builtin.module' '(' elements? ')'
elements ::= element (',' element)*
element  ::= pass-name ('{' options '}')? | op-name '(' elements ')'

A pipeline becomes one native PassManager, so IR printing, timing and verification treat both
kinds of passes alike. Native elements stay text and are checked by the native parser.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import gc
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from hlo_remat import passes
from hlo_remat._compat import make_context
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.errors import DiagnosticError, PipelineError
from hlo_remat.passes.base import NamedPipeline, Pass
from hlo_remat.passes.options import OptionError, pass_to_text, passes_from_text
from hlo_remat.passes.verify import Verify

_ANCHOR = "builtin.module"
_NOT_ANCHORED = (
    f"expected pass pipeline to be wrapped with the anchor operation type, e.g. '{_ANCHOR}(...)'"
)
_NATIVE_ERROR = re.compile(r"MLIR Textual PassPipeline Parser:1:(\d+): error: (.*)")


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Passes to run over a module, in order: our own as objects, native ones as text."""

    elements: tuple[Pass | str, ...]

    def __str__(self) -> str:
        texts = (e if isinstance(e, str) else pass_to_text(e) for e in self.elements)
        return f"{_ANCHOR}({','.join(texts)})"

    def run(
        self,
        module: ir.Module,
        *,
        diagnostics: Diagnostics | None = None,
        verify_each: bool = True,
        ir_printing: Mapping[str, Any] | None = None,
        timing: bool = False,
    ) -> None:
        """Runs the passes over `module`, in place.

        `ir_printing` holds keyword arguments of `PassManager.enable_ir_printing`. All that the
        passes and the verifier say goes to `diagnostics`.

        Raises:
          DiagnosticError: if a pass or the verifier fails. The module may be half rewritten.
        """
        diagnostics = Diagnostics() if diagnostics is None else diagnostics
        old_errors = len(diagnostics.errors)
        if any(isinstance(element, Verify) for element in self.elements):
            diagnostics.proven = module.operation.clone()

        def configure(manager: PassManager) -> None:
            manager.enable_verifier(verify_each)
            if ir_printing is not None:
                manager.enable_ir_printing(**ir_printing)
            if timing:
                manager.enable_timing()

        with module.context, diagnostics.capture(module.context), _paused_collector():
            succeeded = self._run_manager(module, diagnostics, configure)
        if not succeeded:
            if len(diagnostics.errors) == old_errors:
                diagnostics.error(module.operation.location, f"the pass pipeline {self} failed")
            raise DiagnosticError(diagnostics.errors[old_errors:])

    def _run_manager(
        self,
        module: ir.Module,
        diagnostics: Diagnostics,
        configure: Callable[[PassManager], None],
    ) -> bool:
        # The timing report is printed when the manager dies: it must not outlive this function.
        manager = PassManager(_ANCHOR)
        last_run = -1  # number of the last pass of ours that ran

        def enter(number: int) -> None:
            nonlocal last_run
            if last_run != number - 1:  # a native pass in between may have changed the module
                diagnostics.analyses.clear()
            last_run = number

        for number, element in enumerate(self.elements):
            if isinstance(element, str):
                manager.add(element)
            else:
                # `op_name=` must stay away: the native side keeps a reference to a dead string.
                manager.add(
                    _native_callback(
                        element, module, diagnostics, functools.partial(enter, number)
                    ),
                    name=type(element).__name__,
                    argument=element.name,
                )
        configure(manager)
        try:
            manager.run(module.operation)
        except ir.MLIRError:
            return False
        return True


@contextlib.contextmanager
def _paused_collector() -> Iterator[None]:
    """Without Python's garbage collector: an index is many small lists, and in a process with JAX
    each full collection takes as long as a pass."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def pipeline_of(*elements: Pass | str) -> Pipeline:
    """A pipeline of pass objects and texts such as `canonicalize{max-iterations=2}`."""
    parsed: list[Pass | str] = []
    for element in elements:
        if isinstance(element, str):
            parsed.extend(parse_pipeline(f"{_ANCHOR}({element})").elements)
        else:
            parsed.append(element)
    return Pipeline(tuple(parsed))


def parse_pipeline(text: str) -> Pipeline:
    """Reads `builtin.module(...)`. Raises PipelineError with a caret under what is wrong."""
    return Pipeline(tuple(_Parser(text).parse()))


def _native_callback(
    pass_: Pass, module: ir.Module, diagnostics: Diagnostics, enter: Callable[[], None]
) -> Callable[[ir.Operation, Any], None]:
    def run(_: ir.Operation, native_pass: Any) -> None:
        old_errors = len(diagnostics.errors)
        enter()
        given = list(diagnostics.analyses)
        try:
            pass_.run(module, diagnostics)
        except DiagnosticError as error:
            diagnostics.all.extend(error.diagnostics)
        except RecursionError:
            diagnostics.error(module.operation.location, "ops are nested too deeply")
        except RuntimeError as error:
            if "conversion error" not in str(error):
                raise
            diagnostics.error(module.operation.location, "a name or string is not valid UTF-8")
        for key in given:  # used, or stale
            diagnostics.analyses.pop(key, None)
        if len(diagnostics.errors) > old_errors:
            native_pass.signal_pass_failure()

    return run


class _Parser:
    """Splits a pipeline into elements. Offsets are into the whole text, for the carets."""

    def __init__(self, text: str):
        # One line, so that columns of the native parser are offsets here.
        self.text = re.sub(r"\s", " ", text)
        self.context = make_context()
        # A pass is a pipeline of itself.
        single = [NamedPipeline(p.name, "", (p,)) for p in passes.PASSES]
        self.registry = {pipeline.name: pipeline for pipeline in (*single, *passes.PIPELINES)}

    def parse(self) -> Iterator[Pass | str]:
        opening = re.match(rf" *{re.escape(_ANCHOR)} *\(", self.text)
        closing = len(self.text.rstrip()) - 1
        if not opening or self.text[closing] != ")":
            self.fail(0, _NOT_ANCHORED)
        for begin, end in self.spans(opening.end(), closing):
            yield from self.element(begin, end)

    def spans(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The spans between top-level commas in [begin, end), without surrounding spaces."""
        if not self.text[begin:end].strip():
            return
        depth, at, start = 0, begin, begin
        while at < end:
            character = self.text[at]
            if character == "{":
                at = self.closing_brace(at, end)
            elif character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
                if depth < 0:
                    message = "encountered extra closing ')' creating unbalanced parentheses"
                    self.fail(at, f"{message} while parsing pipeline")
            elif character == "," and depth == 0:
                yield self.stripped(start, at)
                start = at + 1
            at += 1
        if depth:
            self.fail(end, "encountered unbalanced parentheses while parsing pipeline")
        yield self.stripped(start, end)

    def closing_brace(self, opening: int, end: int) -> int:
        depth, at = 1, opening
        while depth:
            at += 1
            if at >= end:
                self.fail(opening, "missing closing '}' while processing pass options")
            depth += (self.text[at] == "{") - (self.text[at] == "}")
        return at

    def stripped(self, begin: int, end: int) -> tuple[int, int]:
        text = self.text[begin:end]
        begin += len(text) - len(text.lstrip())
        return begin, begin + len(text.strip())

    def element(self, begin: int, end: int) -> list[Pass | str]:
        name = self.name(begin, end)
        if name in self.registry:
            return self.own(self.registry[name], begin, end)
        self.refuse_nested_own_pass(begin, end)
        return [self.native(begin, end)]

    def name(self, begin: int, end: int) -> str:
        return re.split(r"[ {(]", self.text[begin:end], maxsplit=1)[0]

    def own(self, pipeline: NamedPipeline, begin: int, end: int) -> list[Pass | str]:
        options_begin, options_end = self.options(begin + len(pipeline.name), end)
        options = self.text[options_begin:options_end]
        try:
            made = iter(passes_from_text(pipeline.name, pipeline.pass_types, options))
        except OptionError as error:
            self.fail(options_begin + error.offset, str(error))
        return [e if isinstance(e, str) else next(made) for e in pipeline.elements]

    def options(self, begin: int, end: int) -> tuple[int, int]:
        """The span between the braces after a pass name, empty if there are none."""
        begin, end = self.stripped(begin, end)
        if begin == end:
            return end, end
        close = self.closing_brace(begin, end) if self.text[begin] == "{" else begin - 1
        if close + 1 != end:
            self.fail(close + 1, "expected ',' after parsing pipeline")
        return begin + 1, close

    def refuse_nested_own_pass(self, begin: int, end: int) -> None:
        opening = self.text.find("(", begin, end)
        if opening < 0 or "{" in self.text[begin:opening] or self.text[end - 1] != ")":
            return
        for inner, inner_end in self.spans(opening + 1, end - 1):
            name = self.name(inner, inner_end)
            if name in self.registry:
                anchor = self.name(begin, end)
                self.fail(
                    inner, f"'{name}' runs on the whole module and can't be nested in '{anchor}'"
                )
            self.refuse_nested_own_pass(inner, inner_end)

    def native(self, begin: int, end: int) -> str:
        element = self.text[begin:end]
        if not element:
            self.fail(begin, "'' does not refer to a registered pass or pass pipeline")
        try:
            PassManager(_ANCHOR, self.context).add(element)
        except ValueError as error:
            located = _NATIVE_ERROR.match(str(error))
            if located is None:
                self.fail(begin, ": ".join(filter(None, str(error).splitlines())))
            self.fail(begin + int(located[1]) - 1, located[2] + self.suggestion(element))
        return element

    def suggestion(self, name: str) -> str:
        similar = difflib.get_close_matches(name, self.registry, n=1)
        return f"; did you mean '{similar[0]}'?" if similar else ""

    def fail(self, offset: int, message: str) -> NoReturn:
        caret = " " * offset + "^"
        raise PipelineError(
            f"MLIR Textual PassPipeline Parser:1:{offset + 1}: error: {message}\n"
            f"{self.text}\n{caret}"
        )
