# SPDX-License-Identifier: Apache-2.0
"""Policies: JAX's set, JAX's own objects, users' callables; as attributes and back."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.extend.core import primitives
from jaxlib.mlir import ir

import hlo_remat
from hlo_remat import _compat, checkpoint_policies, policies
from hlo_remat.frontend.policies import as_policy
from hlo_remat.policies import Offload

X = np.array([0.3, -0.7, 1.1], np.float32)
SAVEABLE, RECOMPUTE, OFFLOADABLE = _compat.policy_answers()
P, J = checkpoint_policies, jax.checkpoint_policies
OFFLOAD = {"offload_src": "device", "offload_dst": "pinned_host"}
BOTH = {"names_which_can_be_saved": ["a"], "names_which_can_be_offloaded": ["b"], **OFFLOAD}
EQUIVALENT = {
    "everything": lambda p: p.everything_saveable,
    "nothing": lambda p: p.nothing_saveable,
    "dots": lambda p: p.dots_saveable,
    "checkpoint_dots": lambda p: p.checkpoint_dots,
    "no_batch": lambda p: p.dots_with_no_batch_dims_saveable,
    "checkpoint_no_batch": lambda p: p.checkpoint_dots_with_no_batch_dims,
    "only": lambda p: p.save_only_these_names("a", "b"),
    "any_but": lambda p: p.save_any_names_but_these("a", "b"),
    "offload_dots": lambda p: p.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offload_names": lambda p: p.save_and_offload_only_these_names(**BOTH),
    "both": lambda p: p.save_from_both_policies(p.dots_saveable, p.save_only_these_names("a")),
}
MODULE = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>,
    %c: tensor<4x2x3xf32>, %d: tensor<4x3x2xf32>,
    %i: tensor<1x5x5x1xf32>, %k: tensor<3x3x1x1xf32>, %p: tensor<i1>, %e: tensor<3xf8E4M3FN>) {
  %dot = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %batched = stablehlo.dot_general %c, %d, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<4x2x3xf32>, tensor<4x3x2xf32>) -> tensor<4x2x2xf32>
  %old = stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %conv = stablehlo.convolution(%i, %k)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x5x5x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x3x1xf32>
  %sin = stablehlo.sine %a : tensor<2x3xf32>
  %erf = chlo.erf %a : tensor<2x3xf32> -> tensor<2x3xf32>
  %select = stablehlo.select %p, %a, %a : tensor<i1>, tensor<2x3xf32>
  %convert = stablehlo.convert %e : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
  %less = stablehlo.compare LT, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %other = stablehlo.custom_call @other(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
"""
OPS = ["dot", "batched", "old", "conv", "sin", "erf", "select", "convert", "less"]
OPS += ["zero", "sum", "other"]


@pytest.fixture(scope="module")
def ops():
    with _compat.make_context():
        module = ir.Module.parse(MODULE)
        block = module.body.operations[0].regions[0].blocks[0]
        yield dict(zip(OPS, (view.operation for view in block.operations), strict=False))


def saved(policy, ops, names=()):
    return [name for name, op in ops.items() if policy.decide(op, set(names))]


def test_every_name_that_jax_has():
    ours, theirs = vars(P), vars(J)
    assert theirs.keys() <= ours.keys()


@pytest.mark.parametrize("make", EQUIVALENT.values(), ids=EQUIVALENT)
def test_jax_policies_are_read_as_ours(make):
    assert as_policy(make(J)) == make(P)
    assert not isinstance(as_policy(make(J)), policies.Custom)


def test_the_jax_policy_that_saves_anything():
    assert as_policy(J.save_anything_except_these_names("a")).decide(None, {"a"}) is True


def test_none_saves_nothing():
    assert as_policy(None) == P.nothing_saveable


@pytest.mark.parametrize("make", EQUIVALENT.values(), ids=EQUIVALENT)
def test_a_policy_survives_as_an_attribute(make):
    with _compat.make_context() as context:
        attribute = ir.Attribute.parse(str(make(P).to_attribute(context)))
        assert policies.from_attribute(attribute) == make(P)


def test_what_is_saved(ops):
    assert saved(P.everything_saveable, ops) == OPS
    assert saved(P.nothing_saveable, ops) == []
    assert saved(P.dots_saveable, ops) == ["dot", "batched", "old", "conv"]
    assert saved(P.dots_with_no_batch_dims_saveable, ops) == ["dot", "old"]
    both = P.save_from_both_policies(
        P.dots_with_no_batch_dims_saveable, lambda prim, *_, **__: prim.name == "sin"
    )
    assert saved(both, ops) == ["dot", "old", "sin"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (P.save_only_these_names("a", "c"), [True, False, True, False]),
        (P.save_any_names_but_these("a"), [False, True, True, False]),
        (P.save_anything_except_these_names("a"), [False, True, False, True]),
        (P.save_and_offload_only_these_names(**BOTH), [True, "offload", True, False]),
        (lambda prim, *_, **params: params.get("name") == "a", [True, False, True, False]),
    ],
    ids=["only", "any_but", "anything_except", "offload", "callable"],
)
def test_what_is_saved_by_name(policy, expected):
    decisions = [as_policy(policy).decide(None, n) for n in ({"a"}, {"b"}, {"a", "b"}, set())]
    answers = ["offload" if d == Offload("device", "pinned_host") else d for d in decisions]
    assert answers == expected


def test_offload_of_dots(ops):
    policy = P.offload_dot_with_no_batch_dims("device", "pinned_host")
    assert policy.decide(ops["dot"], set()) == Offload("device", "pinned_host")
    assert policy.decide(ops["batched"], set()) is False


def test_jax_policies_as_callables_decide_as_ours(ops):
    """JAX's own functions, asked with what is read back from the ops."""
    for make in (EQUIVALENT["dots"], EQUIVALENT["no_batch"], EQUIVALENT["both"]):
        theirs = make(J)
        asked = as_policy(lambda prim, *a, p=theirs, **k: p(prim, *a, **k))
        assert isinstance(asked, policies.Custom)
        for name in OPS:
            for names in (set(), {"a"}, {"b"}):
                assert asked.decide(ops[name], names) == make(P).decide(ops[name], names)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (True, True),
        (False, False),
        (SAVEABLE, True),
        (RECOMPUTE, False),
        (OFFLOADABLE("device", "pinned_host"), Offload("device", "pinned_host")),
    ],
    ids=["true", "false", "saveable", "recompute", "offloadable"],
)
def test_answers_of_a_callable(ops, answer, decision):
    assert as_policy(lambda *_, **__: answer).decide(ops["sin"], set()) == decision


@pytest.mark.parametrize("answer", [None, 1, "yes", SAVEABLE.__class__], ids=repr)
def test_wrong_answers_of_a_callable(ops, answer):
    with pytest.raises(TypeError, match=r"returned .*; it must return a bool, or JAX's Saveable"):
        as_policy(lambda *_, **__: answer).decide(ops["sin"], set())


def test_what_a_callable_is_asked(ops):
    asked = []
    policy = as_policy(lambda prim, *avals, **params: bool(asked.append((prim, avals, params))))
    for name in ops:
        policy.decide(ops[name], {"h"} if name == "dot" else set())
    by_name = dict(zip(["dot", "name", *OPS[1:]], asked, strict=True))
    assert by_name["dot"][0] is jax.lax.dot_general_p
    assert [a.shape for a in by_name["dot"][1]] == [(2, 3), (3, 2)]
    assert by_name["dot"][2]["dimension_numbers"] == (((1,), (0,)), ((), ()))
    assert by_name["batched"][2]["dimension_numbers"] == (((2,), (1,)), ((0,), (0,)))
    assert by_name["conv"][0] is jax.lax.conv_general_dilated_p
    assert by_name["name"][0] is primitives.name_p
    assert by_name["name"][2] == {"name": "h"}
    assert by_name["old"][0] is jax.lax.dot_general_p
    assert by_name["sin"][0] is jax.lax.sin_p
    assert by_name["erf"][0] is jax.lax.erf_p
    assert by_name["select"][0] is jax.lax.select_n_p
    assert by_name["convert"][1][0].dtype == jax.numpy.float8_e4m3fn
    assert by_name["less"][0] is jax.lax.lt_p
    assert by_name["sum"][0] is jax.lax.reduce_sum_p
    assert by_name["sum"][2] == {"axes": (1,)}
    assert by_name["other"][0].name == "custom_call"


@pytest.mark.parametrize("policy", [1, "dots_saveable", ["a"]], ids=repr)
def test_what_is_no_policy(policy):
    with pytest.raises(TypeError, match=r"policy must be one of hlo_remat.checkpoint_policies"):
        hlo_remat.checkpoint(lambda x: x, policy=policy)


def test_an_unhashable_callable():
    class Unhashable:
        __hash__ = None

        def __call__(self, *_, **__):
            return True

    with pytest.raises(TypeError, match="a policy must be hashable"):
        hlo_remat.checkpoint(lambda x: x, policy=Unhashable())


def test_names_are_strings():
    for make in (P.save_only_these_names, P.save_any_names_but_these):
        with pytest.raises(TypeError, match="names are strings, got 1"):
            make("a", 1)


def test_a_name_saved_and_offloaded():
    with pytest.raises(ValueError, match=r"the names \['a'\] are in names_which_can_be_saved and"):
        P.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a", "b"], **OFFLOAD
        )


def test_a_callable_in_a_module_of_another_process(ops):
    attribute = ir.Attribute.parse('{kind = "custom", key = "theirs#0"}')
    with pytest.raises(policies.PolicyError, match="policy 'theirs#0' is a Python function of"):
        policies.from_attribute(attribute)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"dots"', "a policy is a dictionary with a 'kind'"),
        ('{kind = "dots"}', "unknown policy kind 'dots'; the kinds are everything_saveable"),
        ('{kind = "dots_saveable", names = ["a"]}', "has the"),
        ('{kind = "save_only_these_names"}', "has the fields"),
        ('{kind = "save_only_these_names", names_which_can_be_saved = "a"}', "has the wrong type"),
        (
            '{kind = "save_only_these_names", names_which_can_be_saved = [1]}',
            "unexpected attribute",
        ),
    ],
)
def test_attributes_that_are_no_policy(ops, text, message):
    with pytest.raises(policies.PolicyError, match=message):
        policies.from_attribute(ir.Attribute.parse(text))
