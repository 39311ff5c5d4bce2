# SPDX-License-Identifier: Apache-2.0
"""What may go in and out of a region, and be closed over."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hlo_remat import checkpoint, remat

X = np.array([0.3, -0.7, 1.1], np.float32)
FLOAT0 = np.zeros(3, jax.dtypes.float0)
LEAVES = {
    "float32": X,
    "float16": X.astype(np.float16),
    "bfloat16": X.astype(jnp.bfloat16),
    "float8_e4m3fn": X.astype(jnp.float8_e4m3fn),
    "complex64": X + 1j,
    "int8": np.arange(3, dtype=np.int8),
    "int4": np.arange(3).astype(jnp.int4),
    "uint32": np.arange(3, dtype=np.uint32),
    "bool": np.array([True, False, True]),
    "float0": FLOAT0,
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.float32(2.0),
    "python_float": 2.0,
    "python_int": 2,
    "python_bool": True,
    "python_complex": 2j,
    "typed_key": jax.random.key(0),
    "typed_keys": jax.random.split(jax.random.key(0, impl="rbg"), 3),
    "raw_key": jax.random.PRNGKey(0),
    "none": None,
    "empty_tuple": (),
    "empty_dict": {"a": [], "b": None},
}


def same_types(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert jax.tree.map(jax.typeof, a) == jax.tree.map(jax.typeof, b)


@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
def test_a_leaf_goes_in_and_out_unchanged(leaf):
    region = checkpoint(lambda x, leaf: (jnp.sin(x), leaf))
    f = lambda x, leaf: region(x, leaf)[0].sum()  # noqa: E731
    same_types(region(X, leaf), (jnp.sin(X), leaf))
    lowered = jax.jit(region).lower(X, leaf)
    same_types(lowered.compile()(X, leaf), jax.jit(lambda x, leaf: (jnp.sin(x), leaf))(X, leaf))
    np.testing.assert_allclose(jax.jit(jax.grad(f))(X, leaf), np.cos(X), rtol=1e-5)
    lowered = jax.jit(jax.grad(f), keep_unused=True).lower(X, leaf)
    lowered.compile()


@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
def test_a_leaf_can_be_closed_over(leaf):
    region = checkpoint(lambda x: (jnp.sin(x), leaf))
    gradient = jax.jit(jax.grad(lambda x: region(x)[0].sum()))(X)
    np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-5)
    batched, _ = jax.vmap(region, out_axes=(0, None))(X)
    np.testing.assert_allclose(batched, np.sin(X), rtol=1e-5)


@pytest.mark.parametrize("x", [1.0, 1, 1j, True, np.float32(1.0)], ids=repr)
def test_weak_types(x):
    f = lambda x: (x * 2, x)  # noqa: E731
    same_types(jax.jit(checkpoint(f))(x), jax.jit(f)(x))
    same_types(checkpoint(f)(x), f(jnp.asarray(x)) if isinstance(x, bool) else jax.jit(f)(x))


def test_zero_inputs_and_zero_outputs():
    assert checkpoint(lambda: None)() is None
    assert checkpoint(lambda x: ((), {"a": None}))(X) == ((), {"a": None})
    np.testing.assert_array_equal(jax.jit(checkpoint(lambda: jnp.ones(3)))(), np.ones(3))


def test_outputs_that_depend_on_nothing():
    region = checkpoint(lambda x: jnp.arange(3.0))
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: region(x).sum()))(X), np.zeros(3))


def test_a_symbolic_zero_cotangent():
    region = checkpoint(lambda x: (jnp.sin(x), jnp.cos(x), jnp.arange(3)))
    _, pull = jax.vjp(region, X)
    (got,) = pull((np.ones(3, np.float32), np.zeros(3, np.float32), FLOAT0))
    np.testing.assert_allclose(got, np.cos(X), rtol=1e-5)
    text = jax.jit(jax.grad(lambda x: region(x)[0].sum())).lower(X).as_text()
    (enter,) = [line for line in text.splitlines() if "hlo_remat.bwd_enter" in line]
    assert enter.count("tensor<3xf32>") == 3  # one cotangent, one raw input, one result


def test_float0_tangents():
    region = checkpoint(lambda x, i: (jnp.sin(x) * i, i))
    _, tangents = jax.jvp(region, (X, np.arange(3)), (X, FLOAT0))
    assert tangents[1].dtype == jax.dtypes.float0
    np.testing.assert_allclose(tangents[0], np.cos(X) * X * np.arange(3), rtol=1e-5)
    _, pull = jax.vjp(region, X, np.arange(3))
    assert pull((X, FLOAT0))[1].dtype == jax.dtypes.float0
    assert jax.grad(lambda i, x: region(x, i)[0].sum(), allow_int=True)(np.arange(3), X).shape == (
        3,
    )


def test_closed_over_tracers_of_every_kind():
    def f(a, b):
        by_jit = jax.jit(lambda c: checkpoint(lambda d: jnp.sin(a * b * c * d))(c))
        return jax.vmap(by_jit)(b).sum()

    def plain(a, b):
        return jax.vmap(lambda c: jnp.sin(a * b * c * c))(b).sum()

    for argnum in (0, 1):
        np.testing.assert_allclose(
            jax.jit(jax.grad(f, argnum))(X, X), jax.grad(plain, argnum)(X, X), rtol=1e-5
        )


def test_closed_over_arrays_become_inputs():
    big = np.arange(9, dtype=np.float32).reshape(3, 3)
    region = checkpoint(lambda x: jnp.sin(big @ x))
    text = jax.jit(region).lower(X).as_text()
    (enter,) = [line for line in text.splitlines() if '"hlo_remat.enter"' in line]
    assert "tensor<3x3xf32>" in enter


def test_prints_and_callbacks_inside(capfd):
    def body(x):
        jax.debug.print("inside {}", x[0], ordered=True)
        y = jax.pure_callback(np.sin, jax.typeof(x), jax.lax.stop_gradient(x))
        return y * jnp.cos(x)

    gradient = jax.jit(jax.grad(lambda x: checkpoint(body)(x).sum()))(X)
    np.testing.assert_allclose(gradient, -(np.sin(X) ** 2), rtol=1e-5)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("inside") == 1


def test_mutable_arrays_go_past_the_markers():
    @jax.jit
    def f(x):
        ref = jax.new_ref(x)

        @checkpoint
        def region(ref, y):
            ref[...] = ref[...] * 2
            return jnp.sin(y)

        return region(ref, x), ref[...]

    out, doubled = f(X)
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(doubled, 2 * X)


def test_axis_names_and_named_scopes():
    @checkpoint
    def region(x):
        with jax.named_scope("my_scope"):
            return jnp.sin(jax.lax.psum(x, "i"))

    f = jax.vmap(jax.grad(lambda x: region(x).sum()), axis_name="i")
    batch = np.stack([X, 2 * X])
    np.testing.assert_allclose(f(batch)[0], 2 * np.cos(3 * X), rtol=1e-4)
    assert "my_scope" in jax.jit(f).lower(batch).as_text(debug_info=True)


def test_linear_transpose():
    region = checkpoint(lambda x: {"a": x * 2.0, "b": -x})
    (got,) = jax.linear_transpose(region, X)({"a": X, "b": X})
    np.testing.assert_allclose(got, X)


def test_disable_jit():
    with jax.disable_jit():
        got = jax.grad(lambda x: checkpoint(jax.jit(jnp.sin))(x).sum())(X)
    np.testing.assert_allclose(got, np.cos(X), rtol=1e-5)


def test_export():
    from jax import export

    region = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    gradient = jax.jit(jax.grad(lambda x: region(x).sum()))
    exported = export.export(gradient, platforms=["cpu", "cuda"])(X)
    assert "hlo_remat.bwd_enter" in str(exported.mlir_module())
    np.testing.assert_allclose(exported.call(X), gradient(X), rtol=1e-6)


def test_export_with_symbolic_shapes():
    from jax import export

    region = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    gradient = jax.jit(jax.grad(lambda x: region(x).sum()))
    (n,) = export.symbolic_shape("n")
    with pytest.warns(UserWarning, match="region '<lambda>' has symbolic shapes"):
        exported = export.export(gradient)(jax.ShapeDtypeStruct((n,), np.float32))
    np.testing.assert_allclose(exported.call(X), gradient(X), rtol=1e-6)


@pytest.mark.parametrize(
    "prevent_cse",
    [True, False, (True, False), [True, False], (True, {"a": False, "b": True})],
    ids=repr,
)
def test_prevent_cse(prevent_cse):
    scale = np.full(3, 2, np.float32)
    region = checkpoint(lambda x, t: jnp.sin(x * t["a"] + t["b"]) * scale, prevent_cse=prevent_cse)
    text = jax.jit(region).lower(X, {"a": X, "b": X}).as_text()
    expected = {
        repr(True): "prevent_cse = true",
        repr(False): "prevent_cse = false",
        repr((True, {"a": False, "b": True})): "array<i1: false, true, false, true>",
    }.get(repr(prevent_cse), "array<i1: false, true, false, false>")
    assert expected in text


@pytest.mark.parametrize("prevent_cse", [None, 1, "yes", (True, 0), ()], ids=repr)
def test_prevent_cse_of_another_type(prevent_cse):
    with pytest.raises(TypeError, match="prevent_cse must be a bool or a pytree prefix of bools"):
        checkpoint(lambda x: x, prevent_cse=prevent_cse)


def test_prevent_cse_that_is_no_prefix():
    with pytest.raises(ValueError, match="is not a pytree prefix of the arguments"):
        checkpoint(lambda x: x, prevent_cse=(True, False))(X)


def test_ways_to_decorate():
    assert remat is checkpoint

    @checkpoint
    def bare(x):
        """Doc."""
        return x

    @checkpoint(prevent_cse=False)
    def with_options(x):
        return x

    assert (bare.__name__, bare.__doc__, with_options.__name__) == ("bare", "Doc.", "with_options")
    with pytest.raises(TypeError, match="marks a function, got 3"):
        checkpoint(3)


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(jax.grad(lambda x: checkpoint(lambda x: jnp.sin(x), policy=None)(x).sum()))(X)
