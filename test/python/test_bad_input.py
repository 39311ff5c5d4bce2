# SPDX-License-Identifier: Apache-2.0
"""What hlo-remat-opt says of wrong modules, and what it makes of those that only look wrong."""

from __future__ import annotations

import re

import pytest

from hlo_remat.tools.opt import main

PASSES = ["--hlo-remat-pipeline", "--hlo-remat-verify"]
TYPE = "tensor<2xf32>"
HELPERS = f"""
func.func private @one(%a: {TYPE}) -> {TYPE} {{ return %a : {TYPE} }}
func.func private @two(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{ return %a : {TYPE} }}
func.func private @other(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{ return %b : {TYPE} }}
"""
POLICY = 'policy = {kind = "nothing_saveable"}'


def function(body, result="%x", arguments=f"%x: {TYPE}", type_=TYPE):
    return f"func.func @main({arguments}) -> {type_} {{\n{body}\nreturn {result} : {type_}\n}}\n"


def region(tag="", inputs="%x"):
    """A region and its backward, and what the backward gives."""

    def marker(result, kind, *operands, function="two", count=", num_inputs = 1 : i64"):
        return (
            f'%{result}{tag} = stablehlo.composite "hlo_remat.{kind}" {", ".join(operands)} '
            f'{{composite_attributes = {{{POLICY}, prevent_cse = true, region = "r"{count}}}, '
            f"decomposition = @{function}, version = 1 : i32}} : "
            f"({', '.join([TYPE] * len(operands))}) -> {TYPE}\n"
        )

    return (
        marker("e", "enter", "%x", function="one", count="")
        + f"%s{tag} = stablehlo.sine %e{tag} : {TYPE}\n"
        + f"%c{tag} = stablehlo.cosine %e{tag} : {TYPE}\n"
        + marker("o", "exit", f"%s{tag}", "%x")
        + marker("b", "bwd_enter", f"%o{tag}", inputs)
        + f"%d{tag} = stablehlo.multiply %b{tag}, %c{tag} : {TYPE}\n"
        + marker("r", "bwd_exit", f"%d{tag}", inputs)
    )


GOOD = HELPERS + function(region(), "%r")


def nested(depth):
    branch = f'}}, {{ "stablehlo.return"(%x) : ({TYPE}) -> () }}) : (tensor<i1>) -> {TYPE}\n'
    opening = "".join(f'%v{k} = "stablehlo.if"(%p) ({{\n' for k in range(depth))
    closing = "".join(
        f'"stablehlo.return"(%{f"v{k + 1}" if k + 1 < depth else "x"}) : ({TYPE}) -> ()\n{branch}'
        for k in reversed(range(depth))
    )
    return function(opening + closing, "%v0", f"%x: {TYPE}, %p: tensor<i1>")


def call(callee):
    return f"%y = func.call @{callee}(%x) : ({TYPE}) -> {TYPE}"


# -- wrong: one error, at its place, and no output ----------------------------------------------

IN_MARKERS = {
    "unknown policy": ("nothing_saveable", "nope", "unknown policy kind 'nope'; the kinds are"),
    "no kind": ('kind = "nothing_saveable"', "", "unknown policy kind"),
    "a kind that is no string": ('"nothing_saveable"', "3 : i32", "unexpected attribute 3"),
    "a policy that is no dictionary": (POLICY, "policy = [1]", "a policy is a dictionary"),
    "no policy": (POLICY, "a = 1", "needs a 'policy' attribute"),
    "a count that is no integer": ("1 : i64", '"1"', "'num_inputs' has the wrong type"),
    "a count that is a float": ("1 : i64", "1.0 : f32", "'num_inputs' has the wrong type"),
    "too large a count": ("1 : i64", "9 : i64", "too few operands for its attributes"),
    "a negative count": ("1 : i64", "-1 : i64", "too few operands for its attributes"),
    "a fence that is no bool": ("prevent_cse = true", 'prevent_cse = "a"', "must be a bool or an"),
    "fences for other inputs": (
        "prevent_cse = true",
        "prevent_cse = array<i1: true, false>",
        "'prevent_cse' has 2 entries for 1 inputs",
    ),
    "a label that is no string": ('region = "r"', "region = 3", "'region' has the wrong type"),
    "a name that is no string": (
        'region = "r"',
        'name = 3, region = "r"',
        "'name' has the wrong type",
    ),
    "names that are no array": ('region = "r"', 'names = 3, region = "r"', "must be an array of s"),
    "names that are no strings": ('region = "r"', 'names = [3], region = "r"', "array of strings"),
    "decisions that are no array": ("num_inputs", "decisions = 3, num_inputs", "must be an array"),
    "decisions that are none": ("num_inputs", "decisions = [3], num_inputs", "is not a decision"),
    "a later version": ("version = 1", "version = 2", "knows versions up to 1"),
    "an unknown marker": ("hlo_remat.bwd_exit", "hlo_remat.what", "unknown marker"),
    "a recompute by hand": ("hlo_remat.bwd_exit", "hlo_remat.recompute", "takes no raw inputs"),
    "a function that is no identity": ("@two", "@other", "must return what it takes"),
    "no such function": ("@two,", "@three,", "does not reference a valid function"),
}
WRONG = {
    "text": ("what", 1, "custom op 'what' is unknown"),
    "recursion": (function(call("main"), "%y"), 2, "recursive call of '@main'"),
    "no such callee": (function(call("f"), "%y"), 2, "'f' does not reference a valid function"),
    "an unregistered op": (function('"foo.bar"() : () -> ()'), 2, "unregistered dialect"),
    "an unranked tensor": (
        function('%y = "stablehlo.sine"(%x) : (tensor<*xf32>) -> tensor<*xf32>', "%y",
                 "%x: tensor<*xf32>", "tensor<*xf32>"),
        2,
        "must be ranked tensor",
    ),
    "an unknown type": ("func.func private @f(!what.ever)", 1, "unregistered dialect"),
}  # fmt: skip


def run(tmp_path, data, *flags):
    source, output = tmp_path / "in.mlir", tmp_path / "out.mlir"
    output.unlink(missing_ok=True)
    source.write_text(data)
    code = main([str(source), *PASSES, *flags, "-o", str(output)])
    return code, output.read_text() if output.exists() else None


def check_error(tmp_path, capfd, data, line, message):
    assert run(tmp_path, data) == (1, None)
    said = capfd.readouterr().err
    assert re.match(rf"\S*in\.mlir:{line}:\d+: error: [^\n]*{re.escape(message)}", said), said
    assert "Traceback" not in said


@pytest.mark.parametrize(("data", "line", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(tmp_path, capfd, data, line, message):
    check_error(tmp_path, capfd, data, line, message)


@pytest.mark.parametrize(("old", "new", "message"), IN_MARKERS.values(), ids=IN_MARKERS)
def test_markers_that_are_wrong(tmp_path, capfd, old, new, message):
    helpers, body = GOOD.split("func.func @main")
    check_error(
        tmp_path, capfd, f"{helpers}func.func @main{body.replace(old, new)}", r"\d+", message
    )


# -- only unusual: proven to be what it was -------------------------------------------------------

RIGHT = {
    "a region": GOOD,
    "an empty file": "",
    "no main": HELPERS,
    "labels that repeat": HELPERS + function(region() + region("1").replace("%x", "%r"), "%r1"),
    "a region in a private function": HELPERS
    + function(region(), "%r").replace("@main", "private @f")
    + function(call("f"), "%y"),
    "raw inputs of another region": HELPERS + function(region(inputs="%s"), "%r"),
    "an enter alone": HELPERS + function(region().splitlines()[0], "%e"),
    "a backward alone": HELPERS
    + function(region().splitlines()[4].replace("%o, ", "%x, "), "%b"),
    "another dialect": function("%y = arith.addf %x, %x : f32", "%y", "%x: f32", "f32"),
    "a control flow graph": function("cf.br ^a\n^a:"),
    "a function without a body": f"func.func private @f({TYPE}) -> {TYPE}"
    + function(call("f"), "%y"),
    "a dynamic shape": function("%y = stablehlo.sine %x : tensor<?xf32>", "%y",
                                "%x: tensor<?xf32>", "tensor<?xf32>"),
    "tokens": function(
        "%t = stablehlo.create_token : !stablehlo.token\n"
        f'%i:2 = "stablehlo.infeed"(%t) {{infeed_config = ""}} : (!stablehlo.token) -> ({TYPE}, '
        f"!stablehlo.token)\n"
        f'%o = "stablehlo.outfeed"(%x, %i#1) {{outfeed_config = ""}} : ({TYPE}, !stablehlo.token) '
        "-> !stablehlo.token",
        "%i#0",
    ),
    "donated arguments": function("", "%y", f"%x: {TYPE} {{tf.aliasing_output = 0 : i32}}, "
                                  f"%y: {TYPE} {{jax.buffer_donor = true}}"),
    "shardings in strings": function(
        f'%y = stablehlo.custom_call @Sharding(%x) {{mhlo.sharding = "{{replicated}}"}} : ({TYPE}) '
        f"-> {TYPE}", "%y", f'%x: {TYPE} {{mhlo.sharding = "{{devices=[2]<=[2]}}"}}'),
    "eight bits": function("%y = stablehlo.convert %x : (tensor<2xf8E4M3FN>) -> tensor<2xf32>",
                           "%y", "%x: tensor<2xf8E4M3FN>"),
    "four bits": function("%c = stablehlo.constant dense<3> : tensor<i4>\n%d = stablehlo.add %c, %c"
                          " : tensor<i4>", "%d", "", "tensor<i4>"),
    "complex constants": function("%c = stablehlo.constant dense<(1.0, 2.0)> : "
                                  "tensor<complex<f32>>", "%c", "", "tensor<complex<f32>>"),
    "a huge constant": function(f"%c = stablehlo.constant dense<\"0x{'01020304' * 300000}\"> : "
                                "tensor<300000xi32>"),
    "branches in branches": nested(100),
}  # fmt: skip


@pytest.mark.parametrize("data", RIGHT.values(), ids=RIGHT)
def test_what_is_only_unusual(tmp_path, data):
    code, output = run(tmp_path, data)
    assert code == 0
    for attribute in re.findall(r"tf\.aliasing_output|jax\.buffer_donor|mhlo\.sharding", data):
        assert attribute in output


def test_an_op_that_nobody_knows(tmp_path):
    data = function(f'%y = "foo.bar"(%x) : ({TYPE}) -> {TYPE}', "%y")
    code, output = run(tmp_path, data, "--allow-unregistered-dialect")
    assert code == 0
    assert '"foo.bar"(%arg0)' in output


def test_strings_that_are_not_utf8(tmp_path, capfd):
    assert run(tmp_path, GOOD.replace('region = "r"', 'region = "\\FF"')) == (1, None)
    assert "error: a name or string is not valid UTF-8" in capfd.readouterr().err


def test_modules_that_are_cut_off(tmp_path, capfd):
    for end in range(1, len(GOOD) - 4, 97):
        code, output = run(tmp_path, GOOD[:end])
        assert "Traceback" not in capfd.readouterr().err
        is_whole = GOOD[:end].count("{") == GOOD[:end].count("}")
        assert (code, output) == (1, None) or (code == 0 and is_whole)


@pytest.mark.parametrize("depth", [700, 5000])
def test_ops_that_are_nested_too_deeply(tmp_path, capfd, depth):
    assert run(tmp_path, nested(depth)) == (1, None)
    said = capfd.readouterr().err
    assert re.search(r"in\.mlir:\d+:\d+: error: (not proven: )?(ops|braces) are nested", said)
    assert "Traceback" not in said


@pytest.mark.parametrize("path", ["", "missing/out.mlir", "in.mlir/out.mlir", "."])
def test_outputs_that_cannot_be_written(tmp_path, capfd, path):
    source = tmp_path / "in.mlir"
    source.write_text(GOOD)
    assert main([str(source), *PASSES, "-o", str(tmp_path / path)]) == 1
    assert "error: cannot open output file" in capfd.readouterr().err
    assert source.read_text() == GOOD
    assert [p.name for p in tmp_path.iterdir()] == ["in.mlir"]
