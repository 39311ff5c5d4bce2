# SPDX-License-Identifier: Apache-2.0
"""What the lowered module looks like: what the passes rely on."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hlo_remat import checkpoint, checkpoint_policies

X = np.array([0.3, -0.7, 1.1], np.float32)
WEIGHTS = np.ones((5, 3, 3), np.float32)


def gradient_text(f, *args, **options):
    return jax.jit(jax.grad(lambda *a: f(*a).sum(), **options)).lower(*args).as_text()


def markers(text):
    return re.findall(r'stablehlo.composite "hlo_remat\.(\w+)"', text)


def operands(text, kind):
    """The operands of each marker of a kind."""
    found = re.findall(rf'"hlo_remat\.{kind}" ([^{{]*) {{', text)
    return [line.split(", ") for line in found]


def test_the_four_markers_of_a_region():
    text = gradient_text(checkpoint(lambda x: jnp.sin(jnp.sin(x))), X)
    # The value of the function isn't asked for, so exit is dead.
    assert markers(text) == ["enter", "bwd_enter", "bwd_exit"]
    assert operands(text, "bwd_enter")[0][1:] == operands(text, "enter")[0] == ["%arg0"]


def test_all_markers_take_the_raw_inputs():
    f = checkpoint(lambda w, x: jnp.tanh(w @ x))
    value_and_grad = jax.value_and_grad(lambda w, x: f(w, x).sum())
    text = jax.jit(value_and_grad).lower(WEIGHTS[0], X).as_text()
    assert markers(text) == ["enter", "exit", "bwd_enter", "bwd_exit"]
    assert operands(text, "enter") == [["%arg0", "%arg1"]]
    for kind in ("exit", "bwd_enter", "bwd_exit"):
        assert operands(text, kind)[0][-2:] == ["%arg0", "%arg1"]


def test_only_live_cotangents_are_carried():
    f = checkpoint(lambda x, y: (jnp.sin(x * y), jnp.cos(x), jnp.exp(y)))
    text = gradient_text(lambda x, y: f(x, y)[0], X, X)
    assert len(operands(text, "bwd_enter")[0]) == 1 + 2
    assert len(operands(text, "bwd_exit")[0]) == 1 + 2  # of x alone


def test_a_scan_stacks_no_copy_of_its_weights():
    """The raw xs go straight to the backward loop. A second stack holds what enter returns: it is
    the raw input again, which is for the passes to find out."""
    body = checkpoint(lambda c, w: (jnp.sin(w @ c), None))

    def f(x, w):
        return jax.lax.scan(body, x, w)[0]

    marked = gradient_text(f, X, WEIGHTS, argnums=(0, 1))
    (forward, backward) = re.findall(r"stablehlo\.while\(.*?\) : (.*)", marked)
    assert forward.count("tensor<5x3x3xf32>") == 2
    assert backward.count("tensor<5x3x3xf32>") == 3  # and the gradient


def test_a_scan_stacks_no_copy_of_constants():
    body = checkpoint(lambda w, c: jnp.sin(w @ c))

    def f(x, w):
        return jax.lax.scan(lambda c, _: (body(w, c), None), x, length=5)[0]

    marked = gradient_text(f, X, WEIGHTS[0], argnums=(0, 1))
    assert "tensor<5x3x3xf32>" not in marked


def test_an_rnn_takes_no_more_memory_than_without_markers():
    def f(cell):
        scanned = lambda x, w: jax.lax.scan(lambda c, _: (cell(w, c), None), x, length=50)[0]  # noqa: E731
        gradient = jax.jit(jax.grad(lambda x, w: scanned(x, w).sum(), argnums=(0, 1)))
        return gradient.lower(X, WEIGHTS[0]).compile().memory_analysis().temp_size_in_bytes

    def cell(w, c):
        return jnp.tanh(w @ c)

    assert f(checkpoint(cell)) <= 2 * f(cell)  # a copy of the weights each step would be 3 times


def test_one_function_for_equal_layers():
    """Equal calls are lowered once, with or without regions."""
    layer = jax.jit(checkpoint(lambda w, x: jnp.tanh(w @ x)))

    def f(x):
        for w in WEIGHTS:
            x = layer(w, x)
        return x

    assert len(markers(jax.jit(f).lower(X).as_text())) == 2  # enter and exit


@pytest.mark.parametrize("debug_info", [False, True])
def test_the_text_is_the_same_each_time(debug_info):
    def text():
        jax.clear_caches()
        policy = checkpoint_policies.save_any_names_but_these()
        f = checkpoint(lambda w, x: jnp.tanh(w @ x), policy=policy)
        return (
            jax.jit(jax.grad(lambda w, x: f(w, f(w, x)).sum()))
            .lower(WEIGHTS[0], X)
            .as_text(debug_info=debug_info)
        )

    first, second = [text() for _ in range(2)]
    assert first == second


def test_locations_are_the_users():
    f = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    text = jax.jit(jax.grad(lambda x: f(x).sum())).lower(X).as_text(debug_info=True)
    assert "test_lowered.py" in text
    assert "hlo_remat/frontend" not in text


def test_tracebacks_are_the_users():
    def broken(x):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as error:
        jax.jit(checkpoint(broken))(X)
    assert any(entry.name == "broken" for entry in error.traceback)


def test_labels():
    class Layer:
        def __call__(self, x):
            return x

    for fun, label in [
        (functools.partial(functools.partial(jnp.clip, min=0), max=1), "clip"),
        (Layer(), "Layer"),
        (Layer().__call__, "__call__"),
    ]:
        assert f'region = "{label}"' in jax.jit(checkpoint(fun)).lower(X).as_text()


def test_cuda_without_a_gpu():
    f = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    traced = jax.jit(jax.grad(lambda x: f(x).sum())).trace(X)
    assert "hlo_remat.bwd_enter" in traced.lower(lowering_platforms=("cuda",)).as_text()
