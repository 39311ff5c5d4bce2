# SPDX-License-Identifier: Apache-2.0
"""Names: where they arrive in the lowered module, and the check of a policy's names."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name as jax_name

import hlo_remat
from hlo_remat import checkpoint, checkpoint_name, checkpoint_policies

X = np.array([0.3, -0.7, 1.1], np.float32)
SAVE_H = checkpoint_policies.save_only_these_names("h")
either_name = pytest.mark.parametrize("name", [checkpoint_name, jax_name], ids=["ours", "jax"])


def lowered_gradient(f, *args):
    return jax.jit(jax.grad(lambda *a: jnp.sum(f(*a)))).lower(*args or (X,)).as_text()


def names(text):
    return text.count('"hlo_remat.name"')


@either_name
def test_a_name_becomes_a_marker(name):
    f = checkpoint(lambda x: jnp.sin(name(jnp.sin(x), "h")), policy=SAVE_H)
    text = lowered_gradient(f)
    assert names(text) == 1
    assert 'names = ["h"]' in text


@either_name
def test_names_in_nested_jaxprs(name):
    def f(x):
        x = jax.jit(lambda x: name(jnp.sin(x), "h"))(x)
        x = jax.lax.scan(lambda c, _: (jnp.sin(name(jnp.sin(c), "h")), None), x, length=3)[0]
        return jax.lax.cond(x[0] > 0, lambda x: jnp.sin(name(jnp.cos(x), "h")), lambda x: x, x)

    assert names(lowered_gradient(checkpoint(f, policy=SAVE_H))) == 3


@either_name
@pytest.mark.parametrize("around", [lambda f: f, jax.jit, checkpoint], ids=["", "jit", "region"])
def test_names_in_the_fwd_of_a_custom_vjp(name, around):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), name(jnp.cos(x), "h")), lambda c, g: (g * c,))
    assert names(lowered_gradient(checkpoint(around(f), policy=SAVE_H))) == 1


@either_name
def test_names_in_a_custom_jvp(name):
    @jax.custom_jvp
    def f(x):
        return name(jnp.sin(x), "h")

    f.defjvp(lambda p, t: (f(*p), t[0] * jnp.cos(p[0])))
    assert names(lowered_gradient(checkpoint(lambda x: jnp.sin(f(x)), policy=SAVE_H))) == 1


def test_a_jax_checkpoint_inside_still_sees_its_names():
    save = jax.checkpoint_policies.save_only_these_names("h")
    inner = jax.checkpoint(lambda x: jnp.sin(jax_name(jnp.sin(x), "h")), policy=save)
    outer = checkpoint(inner, policy=SAVE_H)
    sines = [
        str(jax.make_jaxpr(jax.grad(lambda x, f=f: f(x).sum()))(X)).count("= sin ")
        for f in (outer, inner, checkpoint(jax.checkpoint(inner)))
    ]
    assert sines == [2, 2, 3]  # saved, saved, computed again
    assert names(lowered_gradient(outer)) >= 1


def test_functions_without_names_keep_their_identity():
    """JAX's caches go by it: one function in the module, not one inside and one outside."""

    @jax.jit
    def f(x):
        return jnp.sin(x) * 2

    text = jax.jit(lambda x: f(checkpoint(f)(x))).lower(X).as_text()
    assert text.count("func.func private @f") == 1


def test_a_named_function_is_rewritten_once():
    @jax.jit
    def f(x):
        return jax_name(jnp.sin(x) * 2, "h")

    marked = checkpoint(f, policy=SAVE_H)
    text = jax.jit(lambda x: marked(marked(x))).lower(X).as_text()
    assert text.count("func.func private @f") == 1
    assert names(text) == 1


def test_names_outside_of_regions_stay_jaxs():
    assert names(jax.jit(lambda x: jax_name(x, "h")).lower(X).as_text()) == 0


def test_a_name_passes_every_leaf():
    tree = {"a": X, "b": 1.5, "key": jax.random.key(0), "none": None, "i": np.arange(3)}
    named = jax.jit(lambda t: checkpoint_name(t, "h"))(tree)
    assert jax.tree.structure(named) == jax.tree.structure(tree)
    assert named["b"].weak_type
    assert named["key"].dtype == tree["key"].dtype


@pytest.mark.parametrize("name", [None, 1, ["h"]])
def test_a_name_is_a_string(name):
    with pytest.raises(TypeError, match="takes a string as its name, got"):
        checkpoint_name(X, name)


def raises_unknown(f, policy, *parts):
    with pytest.raises(hlo_remat.UnknownNameError) as error:
        checkpoint(f, policy=policy)(X)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    "policy",
    [
        checkpoint_policies.save_only_these_names("g"),
        jax.checkpoint_policies.save_only_these_names("g"),
        checkpoint_policies.save_anything_except_these_names("h", "g"),
        checkpoint_policies.save_any_names_but_these("g"),
        checkpoint_policies.save_from_both_policies(
            checkpoint_policies.dots_saveable, checkpoint_policies.save_only_these_names("g")
        ),
    ],
    ids=["only", "jax_only", "anything_except", "any_but", "both"],
)
def test_a_misspelt_name_lists_those_there_are(policy):
    def block(x):
        return jnp.sin(checkpoint_name(x, "h"))

    raises_unknown(block, policy, "['g']", "['h']", "'block'", "test_names.py:")


def test_a_dropped_name_is_not_there():
    def block(x):
        checkpoint_name(x, "h")
        return jnp.sin(x)

    raises_unknown(block, SAVE_H, "its outputs depend on", "none")


def test_the_search_ends_where_a_fwd_calls_its_own_function():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), checkpoint_name(jnp.cos(x), "m")), lambda c, g: (g * c,))
    raises_unknown(f, SAVE_H, "['m']")


def test_names_of_an_inner_region_count_for_the_outer_one():
    inner = checkpoint(lambda x: jnp.sin(checkpoint_name(x, "h")))
    assert 'names = ["h"]' in lowered_gradient(checkpoint(lambda x: inner(x) + 1, policy=SAVE_H))
