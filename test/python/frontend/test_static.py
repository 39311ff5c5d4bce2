# SPDX-License-Identifier: Apache-2.0
"""Static arguments and how often a marked function is traced."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_remat import checkpoint
from hlo_remat.frontend.static import make_static

X = np.array([0.3, -0.7, 1.1], np.float32)


class Counted:
    """A function of an array and a static argument that counts its traces."""

    def __init__(self):
        self.traces = 0

    def __call__(self, x, static):
        self.traces += 1
        return x * np.asarray(static, np.float32).sum()


@pytest.mark.parametrize(
    "make",
    [lambda: 2, lambda: [1, 1], lambda: ([1], [1]), lambda: np.ones(2)],
    ids=["int", "list", "tuple", "array"],
)
def test_equal_static_arguments_are_traced_once(make):
    f = Counted()
    for _ in range(3):
        np.testing.assert_allclose(checkpoint(f, static_argnums=1)(X, make()), 2 * X)
        np.testing.assert_allclose(checkpoint(f, static_argnames="static")(X, static=make()), 2 * X)
    assert f.traces == 2  # one for each way to pass it


def test_a_list_changed_in_place_is_another_argument():
    f = Counted()
    marked, static = checkpoint(f, static_argnums=1), [1]
    marked(X, static)
    static.append(4)
    np.testing.assert_allclose(marked(X, static), 5 * X)
    np.testing.assert_allclose(marked(X, [1]), X)
    np.testing.assert_allclose(marked(X[:2], [1]), X[:2])  # traced anew, with what is passed now
    assert f.traces == 3


def test_true_and_1_and_1_0_are_different():
    seen = []
    marked = checkpoint(lambda x, s: seen.append(s) or x, static_argnums=1)
    for static in (True, 1, 1.0, (True,), (1,), [1]):
        marked(X, static)
    assert list(map(repr, seen)) == ["True", "1", "1.0", "(True,)", "(1,)", "[1]"]


def test_what_can_be_neither_hashed_nor_pickled_works():
    static = {"f": [lambda x: x + 1], "lock": [(i for i in ())]}
    marked = checkpoint(lambda x, s: s["f"][0](x), static_argnums=1)
    np.testing.assert_allclose(marked(X, static), X + 1)


def test_a_tracer_as_a_static_argument():
    marked = checkpoint(lambda x, y: jnp.sin(x) * y, static_argnums=1)
    f = lambda x, y: marked(x, y).sum()  # noqa: E731
    dx, dy = jax.jit(jax.grad(f, argnums=(0, 1)))(X, X + 1)
    np.testing.assert_allclose(dx, np.cos(X) * (X + 1), rtol=1e-5)
    np.testing.assert_allclose(dy, np.sin(X), rtol=1e-5)


def test_positions_names_and_defaults():
    def f(a, b, *rest, c=1, **others):
        return a * (b + len(rest) + c + others.get("d", 0))

    assert checkpoint(f, static_argnums=(-1, 1))(1.0, 2, 3.0, "x") == 5
    assert checkpoint(f, static_argnames=("c", "b"))(1.0, 2, c=3) == 5
    assert checkpoint(f, static_argnames=["d"])(1.0, 2, d=3) == 6


class Slots:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 2.0

    def __call__(self, x, s):
        return x * self.factor * s[0]

    __hash__ = None

    def method(self, x, s):
        return self(x, s)


@pytest.mark.parametrize(
    "fun",
    [
        Slots(),
        Slots().method,
        functools.partial(Slots().method),
        functools.partial(lambda f, x, s: x * f * s[0], 2.0),
        lambda x, s: x * 2.0 * s[0],
        checkpoint(lambda x, s: x * 2.0 * s[0], static_argnums=1),
    ],
    ids=["object", "method", "partial_method", "partial", "lambda", "region"],
)
def test_callables(fun):
    marked = checkpoint(fun, static_argnums=1)
    for _ in range(2):
        gc.collect()
        np.testing.assert_allclose(marked(X, (3.0,)), 6 * X)


def test_a_method_of_a_pytree():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: jax.Array

        @checkpoint
        def __call__(self, x):
            return jnp.tanh(self.w * x)

    got = jax.jit(jax.grad(lambda layer: layer(X).sum()))(Layer(jnp.ones(3)))
    np.testing.assert_allclose(got.w, X * (1 - np.tanh(X) ** 2), rtol=1e-5)


@pytest.mark.parametrize("static", [None, [1.0], object()], ids=["no", "list", "object"])
def test_functions_and_what_they_hold_are_freed(static):
    class Big:
        weights = np.ones(3)

    def make():
        big = Big()
        f = lambda x, s=None: jnp.sin(x) * big.weights  # noqa: E731
        marked = checkpoint(f, static_argnums=() if static is None else 1)
        args = () if static is None else (static,)
        jax.jit(jax.grad(lambda x: marked(x, *args).sum()))(X)
        marked(X, *args)
        return weakref.ref(f), weakref.ref(big)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_no_tracer_is_leaked():
    with jax.checking_leaks():
        marked = checkpoint(lambda x, s: jnp.sin(x) * x, static_argnums=1)
        jax.jit(jax.grad(lambda x: marked(x, [1]).sum()))(X)


def test_two_checkpoints_of_a_function_share_a_trace():
    traces = []

    def f(x):
        traces.append(1)
        return jnp.sin(x)

    @jax.jit
    def outer(x):
        return checkpoint(f)(checkpoint(f)(x)).sum()

    for _ in range(2):
        jax.grad(outer)(X)
        outer(X)
    assert len(traces) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2) | st.floats(0.5, 2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        | st.tuples(inner)
        | st.sets(st.integers(0, 3))
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_keys_are_equal_as_values_are(a, b):
    same = repr(a) == repr(b)
    key_a, key_b = make_static({0: a})[0], make_static({0: b})[0]
    assert (key_a == key_b) == same
    if same:
        assert hash(key_a) == hash(key_b)


@pytest.mark.parametrize("argnums", ["x", 1.0, True, [1.0], (True,), None])
def test_static_argnums_of_another_type(argnums):
    with pytest.raises(TypeError, match=r"static_argnums .* must be an int or a sequence of ints"):
        checkpoint(lambda x: x, static_argnums=argnums)


@pytest.mark.parametrize("argnames", [1, [1], ("x", 2), None])
def test_static_argnames_of_another_type(argnames):
    with pytest.raises(TypeError, match=r"static_argnames .* must be a string or strings"):
        checkpoint(lambda x: x, static_argnames=argnames)


def test_an_unknown_static_argname():
    with pytest.raises(ValueError, match=r"has \['z'\], but the function's parameters are \['x'\]"):
        checkpoint(lambda x: x, static_argnames="z")


@pytest.mark.parametrize("n", [2, -3])
def test_static_argnums_out_of_range(n):
    with pytest.raises(ValueError, match=f"has {n}, but .* 2 positional .* from -2 to 1"):
        checkpoint(lambda x, y: x, static_argnums=n)(X, 1)


def test_static_argnums_without_arguments():
    with pytest.raises(ValueError, match="0 positional arguments"):
        checkpoint(lambda: 1.0, static_argnums=0)()


def test_a_concretization_error_points_to_static_argnums():
    inner = checkpoint(lambda x, flag: x if flag else -x)
    for marked in (inner, checkpoint(inner)):
        with pytest.raises(jax.errors.TracerBoolConversionError) as error:
            marked(X, True)
        assert str(error.value).count("hlo_remat.checkpoint(fun, static_argnums=...)") == 1
