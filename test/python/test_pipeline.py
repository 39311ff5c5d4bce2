# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Literal

import pytest
from jaxlib.mlir import ir

from hlo_remat import passes
from hlo_remat._compat import make_context
from hlo_remat.diagnostics import Diagnostics, Severity, note
from hlo_remat.errors import DiagnosticError, PipelineError
from hlo_remat.passes.base import NamedPipeline, Pass, option
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.pipeline import parse_pipeline, pipeline_of

TWICE = """
func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = stablehlo.add %x, %x : tensor<2xf32>
  %b = stablehlo.add %x, %x : tensor<2xf32>
  %c = stablehlo.multiply %a, %b : tensor<2xf32>
  return %c : tensor<2xf32>
}
"""


@dataclasses.dataclass(frozen=True)
class Example(Pass):
    """Says its options."""

    name = "example"
    memory_limit: int = option(3, "a number")
    fraction: float = option(0.5, "a part")
    fast: bool = option(False, "a switch")
    kind: Literal["small", "large"] = option("small", "a choice")
    names: tuple[str, ...] = option((), "a list")
    text: str | None = option(None, "a text")

    def __post_init__(self):
        if self.memory_limit < 0:
            raise ValueError("memory-limit must not be negative")

    def run(self, module, diagnostics):
        operation = module.body.operations[0]
        diagnostics.warning(operation.location, str(self))
        if self.fast:
            diagnostics.error(operation.location, "too fast", [note(None, "slow down")])


@dataclasses.dataclass(frozen=True)
class Breaks(Pass):
    """Leaves an invalid module behind."""

    name = "breaks"

    def run(self, module, diagnostics):
        function_type = ir.TypeAttr.parse("() -> ()")
        module.body.operations[0].attributes["function_type"] = function_type


@dataclasses.dataclass(frozen=True)
class Crashes(Pass):
    """Has a bug."""

    name = "crashes"

    def run(self, module, diagnostics):
        raise ZeroDivisionError("a bug")


@dataclasses.dataclass(frozen=True)
class Raises(Pass):
    """Uses a part of the library that raises what it has to say."""

    name = "raises"

    def run(self, module, diagnostics):
        inner = Diagnostics()
        inner.error(module.operation.location, "raised")
        raise DiagnosticError(inner.errors)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, Example, Breaks, Crashes, Raises))


def module_of(text=TWICE):
    return ir.Module.parse(text, make_context())


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("example", {}),
        ("example{}", {}),
        ("example{memory-limit=5}", {"memory_limit": 5}),
        ("example{memory-limit=-0 fraction=1e-3}", {"memory_limit": 0, "fraction": 0.001}),
        ("example { fast   kind=large }", {"fast": True, "kind": "large"}),
        ("example{fast=1}", {"fast": True}),
        ("example{fast=false}", {"fast": False}),
        ("example{names=a,b}", {"names": ("a", "b")}),
        ("example{names={a, b}}", {"names": ("a", "b")}),
        ("example{names={'a b',{c,d}}}", {"names": ("a b", "c,d")}),
        ("example{names={}}", {"names": ()}),
        ("example{text=1GiB}", {"text": "1GiB"}),
        ("example{text='a b' fast}", {"text": "a b", "fast": True}),
        ('example{text="a, b"}', {"text": "a, b"}),
        ("example{text={a b}}", {"text": "a b"}),
        ("example{text=f(a b)}", {"text": "f(a b)"}),
        ("example{text=a=b}", {"text": "a=b"}),
    ],
)
def test_options(text, options):
    pipeline = parse_pipeline(f"builtin.module({text})")
    assert pipeline.elements == (Example(**options),)
    assert parse_pipeline(str(pipeline)) == pipeline


def test_only_options_that_differ_are_printed():
    pipeline = pipeline_of(Example(memory_limit=3, names=("a", "b c"), fast=True), "cse")
    assert str(pipeline) == "builtin.module(example{fast=true names={a,{b c}}},cse)"


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module()",
        "builtin.module(cse)",
        "builtin.module(cse,example,func.func(cse,canonicalize{max-iterations=3}),symbol-dce)",
        "builtin.module(inline{op-pipelines={func.func(canonicalize,cse)}},example{text={x y}})",
        "builtin.module(builtin.module(func.func(cse)))",
    ],
)
def test_round_trip(text):
    assert str(parse_pipeline(text)) == text


def test_white_space_is_free():
    spaced = parse_pipeline("\n builtin.module (\n\tcse ,\n  example { fast }\n)\n")
    assert spaced == pipeline_of("cse", Example(fast=True))


NOT_ANCHORED = (
    "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module"
)
NO_PASS = "does not refer to a registered pass or pass pipeline"
UNBALANCED = "unbalanced parentheses while parsing pipeline"


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", "", NOT_ANCHORED),
        ("cse", "cse", NOT_ANCHORED),
        ("builtin.module", "builtin", NOT_ANCHORED),
        ("builtin.module(cse", "builtin", NOT_ANCHORED),
        ("builtin.module(cse){x}", "builtin", NOT_ANCHORED),
        ("func.func(cse)", "func", NOT_ANCHORED),
        ("builtin.module(cse))", "))", f"encountered extra closing ')' creating {UNBALANCED}"),
        ("builtin.module(func.func(cse)", ")", f"encountered {UNBALANCED}"),
        ("builtin.module(cse,,example)", ",example", f"'' {NO_PASS}"),
        ("builtin.module(cse,)", ")", f"'' {NO_PASS}"),
        ("builtin.module(cse,nope)", "nope", f"'nope' {NO_PASS}"),
        ("builtin.module(cse,\n nope)", "nope", f"'nope' {NO_PASS}"),
        ("builtin.module(func.func(cse,nope))", "nope", f"'nope' {NO_PASS}"),
        ("builtin.module(exmple)", "exmple", "; did you mean 'example'?"),
        ("builtin.module(example cse)", "cse", "expected ',' after parsing pipeline"),
        ("builtin.module(example{}cse)", "cse", "expected ',' after parsing pipeline"),
        ("builtin.module(example(cse))", "(cse", "expected ',' after parsing pipeline"),
        ("builtin.module(symbol-dce{} cse)", "cse", "expected ',' after parsing pipeline"),
        ("builtin.module(example{fast)", "{fast", "missing closing '}' while processing pass"),
        ("builtin.module(example{fast,)", "{fast", "missing closing '}' while processing pass"),
        ("builtin.module(cse{x})", "cse{", "no such option x: failed to add `cse`"),
        (
            "builtin.module(stablehlo-legalize-composite-to-call)",
            "stable",
            "did you intend to nest",
        ),
        ("builtin.module(func.func(example))", "example", "can't be nested in 'func.func'"),
        ("builtin.module(any(cse,any(example{fast})))", "example", "can't be nested in 'any'"),
        ("builtin.module(example{fast nope=1})", "nope", "no such option nope; the options of"),
        ("builtin.module(example{fast fast=0})", "fast=0", "--fast option: may only occur zero or"),
        ("builtin.module(example{fast=yes})", "fast=", "'yes' is invalid value for boolean"),
        (
            "builtin.module(example{memory-limit=1GiB})",
            "memory",
            "'1GiB' value invalid for integer",
        ),
        ("builtin.module(example{memory-limit=})", "memory", "'' value invalid for integer"),
        ("builtin.module(example{memory-limit=-1})", "memory", "must not be negative"),
        ("builtin.module(example{fraction=half})", "fraction", "'half' value invalid for floating"),
        ("builtin.module(example{kind=medium})", "kind", "'medium' is not one of small, large"),
        ("builtin.module(example{kind=small,fast=1})", "kind", "'small,fast=1' is not one of"),
    ],
)
def test_errors_point_into_the_text(text, at, message):
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(text)
    heading, shown, caret = str(raised.value).split("\n")
    assert message in heading
    assert shown == text.replace("\n", " ")
    column = text.index(at) if at != ")" else text.rindex(at)
    assert caret == " " * column + "^"
    assert heading.startswith(f"MLIR Textual PassPipeline Parser:1:{column + 1}: error: ")


def test_a_bad_native_option_value_is_an_error(capfd):
    with pytest.raises(PipelineError, match="failed to add `canonicalize` with options"):
        parse_pipeline("builtin.module(canonicalize{max-iterations=x})")
    assert "'x' value invalid" in capfd.readouterr().err


def test_native_and_own_passes_run_in_order():
    module, diagnostics = module_of(), Diagnostics()
    pipeline_of("cse", Example(), Example(memory_limit=4)).run(module, diagnostics=diagnostics)
    assert str(module).count("stablehlo.add") == 1
    assert [d.severity for d in diagnostics.all] == [Severity.WARNING] * 2
    assert "memory_limit=3" in diagnostics.all[0].message
    assert "memory_limit=4" in diagnostics.all[1].message


def test_an_error_of_a_pass_fails_the_pipeline():
    module, diagnostics = module_of(), Diagnostics()
    with pytest.raises(DiagnosticError, match="-:2:1: error: too fast\n<unknown>: note: slow down"):
        pipeline_of(Example(fast=True), "cse").run(module, diagnostics=diagnostics)
    assert [d.message for d in diagnostics.errors] == ["too fast"]
    assert str(module).count("stablehlo.add") == 2, "later passes must not run"


def test_errors_from_before_are_not_raised_again():
    diagnostics = Diagnostics()
    diagnostics.error(None, "old")
    pipeline_of(Example()).run(module_of(), diagnostics=diagnostics)
    with pytest.raises(DiagnosticError) as raised:
        pipeline_of(Example(fast=True)).run(module_of(), diagnostics=diagnostics)
    assert [d.message for d in raised.value.diagnostics] == ["too fast"]


def test_errors_of_native_passes_come_in_the_same_form():
    with pytest.raises(DiagnosticError, match=r"-:2:1: error: 'func.func' op .*symbol table"):
        pipeline_of("func.func(inline)").run(module_of())


def test_raised_diagnostics_are_collected():
    diagnostics = Diagnostics()
    with pytest.raises(DiagnosticError, match="error: raised"):
        pipeline_of(Raises()).run(module_of(), diagnostics=diagnostics)
    assert [d.message for d in diagnostics.errors] == ["raised"]


def test_bugs_keep_their_type():
    with pytest.raises(ZeroDivisionError, match="a bug"):
        pipeline_of(Crashes()).run(module_of())


def test_verify_each_finds_what_a_pass_broke():
    with pytest.raises(DiagnosticError, match="entry block must have 0 arguments"):
        pipeline_of(Breaks(), Example(fast=True)).run(module_of())
    with pytest.raises(DiagnosticError, match="too fast"):
        pipeline_of(Breaks(), Example(fast=True)).run(module_of(), verify_each=False)


def test_the_context_is_left_as_it_was():
    module = module_of()
    pipeline_of(Example()).run(module)
    with pytest.raises(ir.MLIRError) as raised:
        ir.Module.parse("nonsense", module.context)
    assert len(raised.value.error_diagnostics) == 1, "jaxlib must keep its errors again"


def test_passes_are_named_in_dumps_and_timing(capfd):
    pipeline = pipeline_of("cse", Example(memory_limit=4))
    pipeline.run(module_of(), ir_printing={"print_after_all": True}, timing=True)
    printed = capfd.readouterr().err
    assert "IR Dump After CSEPass: cse" in printed
    assert "IR Dump After Example: example " in printed
    assert "Execution time report" in printed


def test_a_named_pipeline_gives_options_to_its_passes(monkeypatch):
    named = NamedPipeline("all", "Runs all.", (Raises, "cse", Example))
    monkeypatch.setattr(passes, "PIPELINES", (named,))
    pipeline = parse_pipeline("builtin.module(symbol-dce,all{fast names=a})")
    assert pipeline == pipeline_of("symbol-dce", Raises(), "cse", Example(fast=True, names=("a",)))
    assert parse_pipeline("builtin.module(all)") == pipeline_of(Raises(), "cse", Example())
    with pytest.raises(PipelineError, match="no such option nope; the options of 'all' are: mem"):
        parse_pipeline("builtin.module(all{nope})")
    with pytest.raises(PipelineError, match="'all' runs on the whole module"):
        parse_pipeline("builtin.module(func.func(all))")


def test_the_named_pipeline_is_the_default_one():
    assert parse_pipeline("builtin.module(hlo-remat-pipeline)") == default_pipeline()


def test_names_are_unique():
    names = [own.name for own in (*passes.PASSES, *passes.PIPELINES)]
    assert len(set(names)) == len(names)
