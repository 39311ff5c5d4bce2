# SPDX-License-Identifier: Apache-2.0
"""`hlo_remat.verify`: what is proven, what is not, and what it says then."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_remat
from hlo_remat import _apply, module_io
from hlo_remat.passes.strip import Strip

W, X = np.ones((3, 4, 4), np.float32) * 0.1, np.arange(8, dtype=np.float32).reshape(2, 4)


def loss(w, x):
    step = hlo_remat.checkpoint(lambda c, w: jnp.sin(c @ w))
    return jnp.sum(lax.scan(lambda c, w: (step(c, w), None), x, w)[0])


@pytest.fixture
def lowered():
    return jax.jit(jax.grad(loss)).lower(W, X)


def in_each_form(lowered):
    module = lowered.compiler_ir("stablehlo")
    return lowered, module, str(module), module_io.bytecode(module)


def test_every_form_of_a_module(lowered):
    rewritten = hlo_remat.apply(lowered)
    for before, after in zip(in_each_form(lowered), in_each_form(rewritten), strict=True):
        assert hlo_remat.verify(before, after)
        assert str(hlo_remat.verify(before, after)) == "proven"


def test_what_is_no_module(lowered):
    with pytest.raises(TypeError, match="got int"):
        hlo_remat.verify(lowered, 3)
    with pytest.raises(hlo_remat.DiagnosticError, match="-:1:1"):
        hlo_remat.verify("what", lowered)


def function(body, result="%r", signature="%x: tensor<2xf32>, %y: tensor<2xf32>"):
    head = f"func.func @main({signature}) -> tensor<2xf32> {{"
    return f"{head}\n{body}\nreturn {result} : tensor<2xf32>\n}}"


SINE = "%s = stablehlo.sine %x : tensor<2xf32>\n"
SUM = "%r = stablehlo.add %s, %y : tensor<2xf32>"
DIFFERENT = {
    "another op": (SINE + SUM, SINE.replace("sine", "cosine") + SUM),
    "another operand": (SINE + SUM, SINE.replace("%x", "%y") + SUM),
    "other order": (SINE + SUM, SINE + SUM.replace("%s, %y", "%y, %s")),
}


@pytest.mark.parametrize("bodies", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_not_proven(bodies):
    verification = hlo_remat.verify(*map(function, bodies))
    assert not verification
    assert not verification.proven
    assert verification.failure.message == "not proven: result 0 of function 'main' differs"


def test_a_failure_shows_both_ops_and_the_operand_that_differs():
    message = str(hlo_remat.verify(*map(function, DIFFERENT["another operand"])))
    assert message.splitlines() == [
        "-:1:1: error: not proven: result 0 of function 'main' differs",
        "-:2:6: note: before: 'stablehlo.sine', operand 0, is argument 0",
        "-:2:6: note: after: 'stablehlo.sine', operand 0, is argument 1",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        "%x: tensor<2xf32>, %y: tensor<2xf32> {jax.buffer_donor = true}",
        "%x: tensor<2xf32> {mhlo.sharding = '{replicated}'}, %y: tensor<2xf32>",
    ],
)
def test_attributes_of_arguments_are_part_of_the_program(changed):
    changed = changed.replace("'", '"')
    assert not hlo_remat.verify(function(SINE + SUM), function(SINE + SUM, signature=changed))


EFFECT = "stablehlo.custom_call @{}(%x) {{has_side_effect = true}} : (tensor<2xf32>) -> ()\n"
A, B = EFFECT.format("a"), EFFECT.format("b")


@pytest.mark.parametrize("effects", [A, B + A, A + B + B, A + A + B, ""])
def test_effects_stay_in_number_and_order(effects):
    assert hlo_remat.verify(function(A + B, "%x"), function(SINE + A + B, "%x"))
    verification = hlo_remat.verify(function(A + B, "%x"), function(effects, "%x"))
    assert "the order of effects" in str(verification)


UNUSUAL = {
    "recursion": "%r = func.call @main(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    "control flow graph": "cf.br ^a\n^a: " + SINE + SUM,
    "token": "%t = stablehlo.create_token : !stablehlo.token\n%u = stablehlo.after_all %t, %t : "
    "!stablehlo.token\n" + SINE + SUM,
}


@pytest.mark.parametrize("body", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_equals_itself(body):
    assert hlo_remat.verify(function(body), function(body))
    assert not hlo_remat.verify(function(body), function(body + "\n%q = " + SINE[5:], "%q"))


def test_a_marker_is_what_its_function_computes():
    """One that lies, for which the passes would take an operand that it doesn't return."""
    lying = """
    func.func private @second(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
      return %b : tensor<2xf32>
    }
    """ + function(
        '%r = stablehlo.composite "hlo_remat.exit" %x, %y {composite_attributes = {num_inputs = 1 '
        ": i64}, decomposition = @second, version = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> "
        "tensor<2xf32>"
    )
    assert hlo_remat.verify(lying, function("", "%y"))
    assert not hlo_remat.verify(lying, function("", "%x"))


def test_apply_proves_what_it_returns(lowered, monkeypatch):
    def forgets(self, module, diagnostics):
        main = next(v for v in module.body.operations if "@main" in str(v).split("(")[0])
        last = list(main.regions[0].blocks[0].operations)[-1].operation
        last.operands[0] = main.regions[0].blocks[0].arguments[0]

    before = lowered.as_text()
    monkeypatch.setattr(Strip, "run", forgets)
    with pytest.raises(hlo_remat.VerificationError, match=r"result 0.*\n.*\n.*\n.*unchanged") as e:
        hlo_remat.apply(lowered)
    assert not e.value.verification.proven
    assert lowered.as_text() == before
    assert hlo_remat.apply(lowered, verify=False) is not lowered


def test_native_passes_of_a_pipeline_are_not_ours_to_prove(lowered):
    pipeline = "builtin.module(canonicalize,hlo-remat-pipeline,cse,canonicalize)"
    hlo_remat.apply(lowered, pipeline=pipeline)
    assert _apply._is_provable("symbol-dce")
