# SPDX-License-Identifier: Apache-2.0
"""Every behaviour that JAX's own tests of its remat ask for, at the level of the module.

docs/parity.md says which of them is where, and which can't be asked of a module.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import re
import subprocess
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backward_ops import backward_ops
from jax import lax
from jax.experimental import checkify, io_callback
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import PartitionSpec as P

import hlo_remat

cp = hlo_remat.checkpoint_policies
remat = hlo_remat.checkpoint
name = hlo_remat.checkpoint_name
X = np.float32(0.7)
V = np.linspace(-1, 1, 6, dtype=np.float32)
M = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
EXACT = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


def rewritten(f, *args):
    return hlo_remat.apply(jax.jit(f).lower(*args))


def run(f, *args):
    return rewritten(f, *args).compile()(*args)


def close(actual, expected):
    compare = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=1e-5)
    jax.tree.map(compare, actual, expected)


def check(make, *args, orders=(0, 1)):
    """`make(mark)` gives the values and derivatives of plain JAX, of the orders."""
    for order in orders:
        marked, plain = make(remat), make(lambda f, **_: f)
        for _ in range(order):
            marked, plain = summed_gradient(marked), summed_gradient(plain)
        close(run(marked, *args), jax.jit(plain)(*args))


def summed_gradient(f):
    return jax.grad(lambda *args: sum(jnp.sum(v) for v in jax.tree.leaves(f(*args))))


def in_program(op, f, *args):
    """How often an op stands in the rewritten program."""
    return len(re.findall(rf"stablehlo\.{op}\b", rewritten(f, *args).as_text()))


def in_backward(f, *args, ops=("sine", "cosine")):
    """How often ops stand in the rewritten backward."""
    counts = backward_ops(f, *args)
    return tuple(counts[op] for op in ops)


def sources(f, *args):
    return [r.source for r in hlo_remat.saved_residuals(f, *args)]


def kept(f, *args):
    """The sources of what is saved, without those that are arguments."""
    return [s for s in sources(f, *args) if "argument" not in s]


def saves(*names):
    return lambda prim, *_, **__: prim.name in names


def sin_sin(x):
    return jnp.sin(jnp.sin(x))


# -- basics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, saves()])
def test_a_region_with_a_constant_output(policy):
    def make(mark):
        g = mark(lambda x: (sin_sin(x), 3.0), policy=policy)
        return lambda x: g(x)[0]

    check(make, X, orders=(0, 1, 2, 3))
    assert in_backward(make(remat), X) == (1, 2)


def test_closed_over_values():
    def make(mark):
        def f(x):
            y = jnp.sin(x)
            return mark(lambda z: jnp.sin(z) * y * jnp.sin(x))(jnp.cos(y))

        return f

    check(make, X, orders=(0, 1, 2))


def test_a_region_without_arguments():
    def make(mark):
        return lambda x: mark(lambda y=2 * x: y)() + mark(jax.jit(lambda: 3.0))() * x

    check(make, X)


@pytest.mark.parametrize("hashable", [True, False])
def test_python_control_flow_on_static_arguments(hashable):
    class Choice:
        def __init__(self, is_sine):
            self.is_sine = is_sine

    @functools.partial(remat, static_argnums=(1,), static_argnames="extra")
    def f(x, choice, extra):
        choose = choice.is_sine if hashable else choice["is_sine"]
        return (jnp.sin(x) if choose else jnp.cos(x)) * extra["scale"]

    def g(x):
        make = Choice if hashable else lambda is_sine: {"is_sine": is_sine}
        return f(x, make(True), extra={"scale": 2}) + f(x, make(False), extra={"scale": 3})

    np.testing.assert_allclose(run(jax.grad(g), X), 2 * np.cos(X) - 3 * np.sin(X), 1e-6)


def test_a_static_number_decides_while_tracing():
    @functools.partial(remat, static_argnums=0)
    def f(x):
        with jax.ensure_compile_time_eval():
            is_positive = x > 0
        return (lax.sin(x), 3.0) if is_positive else (lax.cos(x), 4.0)

    close(f(2.0), (np.sin(2.0), 3.0))
    close(f(-2.0), (np.cos(2.0), 4.0))


@pytest.mark.parametrize("inner", [True, False])
def test_jit_inside_and_outside(inner):
    def make(mark):
        f = lambda x, y: jnp.sin(x) * sin_sin(y)  # noqa: E731
        g = mark(jax.jit(f)) if inner else jax.jit(mark(f))
        return lambda x: jnp.sin(g(x, jnp.cos(x)))

    check(make, X, orders=(0, 1, 2))
    assert in_backward(make(remat), X)[0] == 3  # sin x, sin y and the sine of that


def test_jit_with_static_arguments():
    f = jax.jit(remat(lambda n, x: jnp.sin(x) ** n, static_argnums=0), static_argnums=0)
    expected = jax.grad(lambda x: jnp.sin(x) ** 3)(X)
    close(run(jax.grad(lambda x: f(3, x)), X), expected)


def test_a_jitted_function_that_a_region_calls_twice():
    multiply = jax.jit(lambda a, b: a * b)

    def make(mark):
        return mark(lambda w, x: multiply(multiply(w, x), multiply(w, x)))

    check(make, X, X)


def test_batched_products_of_a_value_with_itself():
    def make(mark):
        def f(w, x):
            a = EXACT("btc,cd->btd", x, w)
            return jnp.sum(EXACT("btT,bTd->btd", EXACT("btd,bTd->btT", a, a), a))

        return mark(f)

    check(make, np.ones((2, 2), np.float32), np.ones((1, 3, 2), np.float32))


@pytest.mark.parametrize("axes", [(0, 0), (1, 0), (1, 1)])
def test_vmap(axes):
    def make(mark):
        return jax.vmap(mark(lambda x: sin_sin(x) @ x * x), in_axes=axes[0], out_axes=axes[1])

    check(make, M, orders=(0, 1, 2))


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev, jax.hessian])
def test_jacobians(jacobian):
    close(run(jacobian(remat(sin_sin)), V), jacobian(sin_sin)(V))


def test_a_batching_rule_that_makes_a_constant():
    @jax.custom_batching.custom_vmap
    def f(x):
        return x

    @f.def_vmap
    def _(size, batched, x):
        return x + jnp.arange(size, dtype=x.dtype), batched[0]

    assert list(run(jax.vmap(remat(f)), np.ones(3, np.float32))) == [1, 2, 3]


@pytest.mark.parametrize("f", [sin_sin, lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x)])
def test_a_second_derivative_keeps_its_regions(f):
    g = remat(f)
    text = jax.jit(jax.grad(jax.grad(g))).lower(X).as_text()
    assert text.count('composite "hlo_remat.bwd_enter"') == 2  # of the forward, of the backward
    close(run(jax.grad(jax.grad(g)), X), jax.grad(jax.grad(f))(X))


def test_forward_mode_keeps_nothing():
    """A region that only goes forward has nothing to recompute, and leaves nothing behind."""
    text = rewritten(lambda x, t: jax.jvp(remat(sin_sin), (x,), (t,)), X, X).as_text()
    assert text.count("stablehlo.sine") == 2
    assert "hlo_remat" not in text


@pytest.mark.parametrize("transform", ["linearize", "vjp"])
def test_linear_parts(transform):
    def derivative(x, t):
        if transform == "linearize":
            return jax.linearize(remat(sin_sin), x)[1](t)
        return jax.vjp(remat(sin_sin), x)[1](t)[0]

    close(run(derivative, X, np.float32(3)), 3 * jax.grad(sin_sin)(X))


def test_a_region_that_is_the_body_of_a_scan():
    def make(mark):
        step = mark(lambda c, x: (jnp.sin(c), None))
        return lambda x: lax.scan(step, x, np.arange(3.0))[0]

    check(make, X, orders=(0, 1, 2))
    # The cosine is made from the carry that is stacked.
    assert in_backward(make(remat), X) == (0, 1)


def test_a_region_of_a_scan_that_is_called_directly():
    def make(mark):
        f = mark(lambda x, _: (lax.scan(lambda x, _: (x + 1, None), x, None, length=1)[0], None))
        return lambda x: f(x, None)[0]

    check(make, X)


def test_reverse_mode_of_a_scan_of_matrices():
    def make(mark):
        step = mark(lambda x, w: EXACT("i,ij->j", jnp.sin(x), w))
        return lambda w, x: lax.scan(lambda x, w: (step(x, w), None), x, jnp.stack([w, w]))[0]

    check(make, M, M[0])


def test_an_environment_of_arrays_and_numbers():
    """What a scan's body gets past the region: numbers, weak types, a traced step."""

    def make(mark):
        @mark
        def step(state, dt=0.5, c=1):
            u, v = state
            return u + 0, v + c**2 * u * dt

        @functools.partial(jax.jit, static_argnums=1)
        def steps(state, count, dt, c):
            return lax.scan(lambda s, _: (step(s, dt, c), _), state, None, count)[0]

        return lambda u: jnp.mean(steps((u, jnp.zeros_like(u)), 3, 1 / jnp.sqrt(2), 1)[1] ** 2)

    check(make, M)


# -- how often things run ----------------------------------------------------------------------


def test_no_redundant_flops():
    """The gradient alone needs of sin(x) * y the sine, once."""
    f = remat(lambda x, y: jnp.sin(x) * y)
    assert in_program("sine", jax.grad(jax.jit(lambda y: f(np.float32(2), y))), X) == 1


def test_what_needs_no_gradient_is_not_run_again():
    def f(x):
        return remat(sin_sin)(lax.stop_gradient(x)) * x

    assert in_program("sine", jax.grad(f), X) == 2


def test_a_region_runs_again_once():
    """A region's forward runs once more, up to what its backward needs, and what follows not."""
    f = lambda x: jnp.sin(remat(lambda x: jnp.sin(sin_sin(x)))(x))  # noqa: E731
    assert in_backward(f, X) == (2, 3)
    assert in_program("sine", lambda x: f(x), X) == 4


@pytest.mark.parametrize(("inner", "again"), [(remat, 3), (jax.jit, 2)])
def test_a_region_in_a_region_runs_again_for_each(inner, again):
    """Of exp, whose derivative is itself: twice for the outer region, once for the inner."""
    f = remat(lambda x: jnp.exp(inner(jnp.exp)(x)))
    assert in_program("exponential", lambda x: f(x), X) == 2
    assert in_backward(f, X, ops=("exponential",)) == (again,)


@pytest.mark.parametrize(("length", "again"), [(4, 2), (8, 8), (16, 24)])
def test_recursive_checkpointing_counts(length, again):
    """n/2 of each half's first calls run again, and so on: n/2 * (log2 n - 1) in all."""

    def recursive(functions):
        if len(functions) <= 2:
            return lambda x: functools.reduce(lambda x, f: f(x), functions, x)
        middle = len(functions) // 2
        first, second = recursive(functions[:middle]), recursive(functions[middle:])
        return lambda x: second(remat(first)(x))

    f = recursive([jnp.exp] * length)
    assert in_backward(f, X, ops=("exponential",)) == (again,)


def test_binomial_checkpointing():
    def make(mark):
        def halves(functions):
            if len(functions) == 1:
                return functions[0]
            middle = len(functions) // 2
            first, second = halves(functions[:middle]), halves(functions[middle:])
            return mark(lambda x: second(first(x)))

        return halves([jnp.sin] * 4)

    check(make, X)
    assert in_backward(make(remat), X) == (4, 4)


def test_a_region_in_the_body_of_a_scan_in_a_region():
    """The outer region runs the scan again, once, and the body's region what it needs."""
    step = remat(sin_sin)
    f = remat(lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=3)[0])
    assert in_backward(f, V) == (3, 2)


def test_dropped_outputs():
    def f(x):
        return remat(lambda x: (sin_sin(x), jnp.exp(jnp.exp(x))))(x)[0]

    assert in_program("exponential", jax.grad(f), X) == 0
    assert in_backward(f, X) == (1, 2)


def test_outputs_and_inputs_that_nobody_reads():
    f = remat(lambda x, y: (jnp.sin(x), jnp.cos(y)))
    first = lambda x, y: f(x, y)[0]  # noqa: E731
    assert [in_program(op, first, X, X) for op in ("sine", "cosine")] == [1, 0]
    assert sources(first, X, X) == ["from the argument x"]
    assert in_backward(first, X, X) == (0, 1)


def test_dropped_variables():
    def make(mark):
        def twice(x):
            return x, x

        return mark(lambda x: jax.grad(lambda x: twice(x)[0] ** 2)(x), policy=cp.dots_saveable)

    check(make, X)


def test_an_output_that_depends_on_no_input():
    f = remat(lambda x: jax.jit(lambda: (x, x))()[1])
    assert run(jax.grad(f), X) == 1
    assert run(jax.grad(remat(lambda x: jax.jit(lambda: 3.0)() * x)), X) == 3


def test_an_op_without_used_inputs():
    """A value that depends on no input of the region is right where it is used."""

    def make(mark):
        return mark(lambda x: jnp.sin(x) * jnp.cos(lax.iota(jnp.float32, 6)))

    check(make, V, orders=(1, 2))


def test_symbolic_zeros_of_a_scan():
    """Neither the stacked output nor the constant part of the carry has a cotangent."""

    def make(mark):
        def f(d):
            step = mark(lambda r, i: (r + 0.001 * d * r, jnp.array([0.0])))
            return lax.scan(step, jnp.asarray(M), jnp.arange(2))[0][0, 0]

        return f

    check(make, X)


def test_symbolic_zeros_of_a_custom_vjp():
    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (f(x.value), None), lambda _, ct: (ct,), symbolic_zeros=True)
    assert run(jax.grad(remat(lambda x: f(f(x)))), X) == 1


def test_zero_cotangents_of_some_outputs():
    def make(mark):
        return lambda x: mark(lambda x: [sin_sin(x), jnp.cos(jnp.cos(x)), x > 0])(x)[0]

    check(make, X, orders=(1, 2))
    assert in_backward(make(remat), X) == (1, 2)


def test_a_scan_in_a_backward_is_not_pruned_too_far():
    """The tangent of tanh(c * x) with its output twice: one tanh, and no more products."""
    step = remat(lambda c, x: 2 * (jnp.tanh(c * x),))
    f = lambda xs: lax.scan(step, np.float32(1), xs)  # noqa: E731
    assert in_backward(f, V, ops=("tanh",)) == (1,)
    check(lambda mark: lambda xs: lax.scan(mark(step.__wrapped__), np.float32(1), xs), V)


# -- what is saved -----------------------------------------------------------------------------


def test_outputs_that_are_inputs():
    """What a region hands through is neither saved twice nor computed."""

    def make(mark):
        def f(x):
            y, same = mark(lambda x: (sin_sin(x), x))(x)
            return y * same

        return f

    assert sources(lambda x: remat(lambda x: (sin_sin(x), x))(x), V) == ["from the argument x"]
    check(make, V)


@pytest.mark.parametrize("jitted", [False, True])
def test_outputs_that_are_residuals(jitted):
    """An output that the backward reads, inside and outside, is kept once."""
    inside = lambda x: name(jnp.sin(x), "y")  # noqa: E731
    inside = jax.jit(inside) if jitted else inside

    @functools.partial(remat, policy=cp.save_only_these_names("y"))
    def f(x):
        y = inside(x)
        return y, y * y

    def g(x):
        a, b = f(x)
        return jnp.tanh(a) + b

    assert sum("named 'y'" in s for s in kept(g, V)) == 1
    assert in_backward(g, V) == (0, 1)


def test_residuals_that_a_jitted_function_forwards():
    @functools.partial(remat, policy=cp.save_only_these_names("y"))
    def f(x, z):
        y = name(jnp.sin(z), "y")
        x = jax.jit(lambda: x * y)()
        return jax.jit(lambda: x * y)()

    z = np.ones(2, np.float32)
    assert [s.split(",")[0] for s in kept(lambda x: f(x, lax.stop_gradient(z)), X)] == ["named 'y'"]
    close(run(jax.grad(lambda x: f(x, z).sum()), X), 2 * np.sin(1.0) ** 2)


@pytest.mark.parametrize(
    ("f", "saved"),
    [
        (lambda x: jnp.einsum("ii->i", x), []),
        (lambda x: jnp.zeros_like(x) * x, []),
        (lambda x: jnp.zeros_like(x) * jnp.sin(x), ["from the argument x"]),
    ],
    ids=["masked", "zeros", "zeros_of_a_sine"],
)
def test_constants_are_no_residuals(f, saved):
    assert sources(remat(f, policy=saves()), M) == saved


def test_an_array_that_a_region_closes_over():
    table = np.arange(6, dtype=np.float32)
    assert kept(remat(lambda x: jnp.sum(sin_sin(x) * table)), V) == ["from a constant"]


def test_where_residuals_come_from():
    def f(x, y):
        first, second = x
        z = name(jnp.sin(first), "z")
        return z * (second * y)

    args = (np.float32(2), np.float32(3)), np.float32(4)
    for g in (f, jax.jit(f)):
        residuals = hlo_remat.saved_residuals(g, *args)
        text = [r.source for r in residuals]
        # The last two are what the sine and the product of the three have as derivatives.
        assert text[:2] == ["from the argument x[1]", "from the argument y"]
        named = next(t for t in text if t.startswith("named 'z', output of sin from "))
        assert "test_jax_parity.py:" in named
        assert all(r.shape == () and r.nbytes == 4 for r in residuals)


def test_a_custom_policy_and_a_name():
    def f(x, y):
        x = name(x * x, "foo")
        return x * x + y

    g = remat(f, static_argnums=1, policy=lambda prim, *_, **__: "mul" in str(prim))
    argument, named = sources(lambda x: g(x, 4.0), X)
    assert argument == "from the argument x"
    assert re.match(r"named 'foo', output of mul from .*test_jax_parity.py:\d+", named)


def test_a_softmax_keeps_its_result():
    """As it does in JAX where the rule of softmax is its own."""
    with jax.softmax_custom_jvp(True):
        residuals = hlo_remat.saved_residuals(jax.nn.softmax, V)
    assert [r.shape for r in residuals] == [V.shape]


@pytest.mark.parametrize(
    ("policy", "saved"),
    [
        (None, ["argument"]),
        (cp.everything_saveable, ["output of cos", "output of sin"]),
        (saves("cos"), ["argument", "output of cos"]),
    ],
    ids=["nothing", "everything", "cos"],
)
def test_what_a_region_saves_is_printed(policy, saved, capsys):
    f = remat(lambda x: jnp.cos(jnp.sum(jnp.sin(x))), policy=policy)
    hlo_remat.print_saved_residuals(f, V)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(saved) + 1
    assert all(s in line for s, line in zip(saved, printed, strict=False))
    assert printed[-1].startswith(f"total: {len(saved)} values, ")


def test_remarks_go_to_the_logger(caplog):
    """Of a name that the backward doesn't need, so that saving it would be for nothing."""
    f = remat(lambda x: name(sin_sin(x), "out"), policy=cp.save_only_these_names("out"))
    with caplog.at_level(logging.INFO, "hlo_remat"):
        rewritten(jax.value_and_grad(f), X)
    assert "'out'" in caplog.text


# -- fences ------------------------------------------------------------------------------------


def fences(f, *args):
    """The operands of each fence: the cotangent and what it holds beside."""
    text = rewritten(f, *args).as_text()
    found = re.findall(r"(?:optimization_barrier|call @hlo_remat\.fenced\w*)\(? ?([^:)]*)", text)
    return [re.findall(r"%[\w#]+", operands) for operands in found]


def test_no_fence_in_the_forward():
    assert fences(remat(sin_sin), X) == []
    assert len(fences(jax.grad(remat(sin_sin)), X)) == 1


def test_no_fence_without_prevent_cse():
    assert fences(jax.grad(remat(sin_sin, prevent_cse=False)), X) == []


def test_no_fence_where_nothing_runs_again():
    saved = remat(sin_sin, policy=cp.everything_saveable)
    assert fences(jax.grad(saved), X) == []
    assert fences(jax.grad(remat(lambda x, y: x @ y), argnums=(0, 1)), V, V) == []


def layers(prevent_cse, as_dict):
    """The gradient of two layers that add a constant as well."""

    def layer(w, x):
        return jnp.sin(jnp.sin(x @ w + jnp.array([1.0, 2.0, 3.0])))

    if as_dict:
        inner = remat(lambda d: layer(d["w"], d["x"]), prevent_cse=prevent_cse)
        run_layer = lambda w, x: inner({"w": w, "x": x})  # noqa: E731
    else:
        run_layer = remat(layer, prevent_cse=prevent_cse)

    def loss(ws, x):
        for w in ws:
            x = run_layer(w, x)
        return jnp.sum(x**2)

    return jax.grad(loss, argnums=(0, 1)), [M[:3, :3], M[1:, :3]], V[:3]


@pytest.mark.parametrize(
    ("prevent_cse", "as_dict", "operands"),
    [
        (True, False, 3),
        ((True, True), False, 3),
        ((False, True), False, 2),
        ((True, False), False, 2),
        (({"w": False, "x": True},), True, 2),
        ((True,), True, 3),
        ((False, False), False, 0),
        (False, True, 0),
    ],
)
def test_partial_cse_prevention(prevent_cse, as_dict, operands):
    found = fences(*layers(prevent_cse, as_dict))
    assert [len(f) for f in found] == ([operands] * 2 if operands else [])


def saved_dot(prevent_cse):
    f = remat(
        lambda w, x: jnp.sin(jnp.sin(x @ w)), policy=cp.dots_saveable, prevent_cse=prevent_cse
    )
    return fences(jax.grad(lambda w, x: jnp.sum(f(w, x)), argnums=(0, 1)), M, M)


@pytest.mark.parametrize(
    ("prevent_cse", "inputs"), [((False, True), 1), ((True, False), 1), ((False, False), 0)]
)
def test_a_saved_value_passes_the_fence(prevent_cse, inputs):
    """With the cotangent and the inputs that are selected: else what is made of it would merge."""
    (operands,) = saved_dot(prevent_cse)
    assert len(operands) == 2 + inputs


# -- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    ("policy", "again"),
    [
        (cp.everything_saveable, (0, 0)),
        (None, (1, 2)),
        (cp.save_only_these_names("sin"), (0, 2)),
        (saves("sin"), (0, 2)),
        (saves("cos"), (1, 0)),
    ],
    ids=["everything", "nothing", "the_name_sin", "sin", "cos"],
)
def test_custom_policies(policy, again, jitted):
    """Of a sine of the square of a sine: the cosines are the derivatives, and need the sine."""

    def make(mark):
        square = jax.jit(jnp.square) if jitted else jnp.square

        def sine(x):
            return name(jnp.sin(x), "sin")

        return mark(lambda x: sine(square(sine(x))), policy=policy)

    assert in_backward(make(remat), X) == again
    check(make, X, orders=(1, 2))


def three_products(equation):
    def f(x):
        for _ in range(3):
            x = jnp.sin(EXACT(equation, x, x) * 1e-3)
        return x

    return f


MATRICES, BATCHES = "ij,jk->ik", "nij,njk->nik"


@pytest.mark.parametrize("jitted", ["no", "inside", "outside"])
@pytest.mark.parametrize(
    ("policy", "equation", "again"),
    [
        ("dots_saveable", MATRICES, (2, 6)),
        ("checkpoint_dots", MATRICES, (2, 6)),
        ("dots_with_no_batch_dims_saveable", MATRICES, (2, 6)),
        ("nothing_saveable", MATRICES, (2, 9)),
        ("dots_saveable", BATCHES, (2, 6)),
        ("checkpoint_dots_with_no_batch_dims", BATCHES, (2, 9)),
    ],
)
def test_dots(policy, equation, again, jitted):
    """Six dots are the backward's own, the other three run again where they aren't saved."""
    f = three_products(equation)
    g = remat(jax.jit(f) if jitted == "inside" else f, policy=getattr(cp, policy))
    g = jax.jit(g) if jitted == "outside" else g
    x = np.ones((2, 2) if equation == MATRICES else (3, 2, 2), np.float32)
    assert in_backward(g, x, ops=("sine", "dot_general")) == again


def dots_in(kind, where):
    """Three dots with sines; a region in the body or branch, or around the loop or branch."""

    def make(mark):
        mark_dots = functools.partial(mark, policy=cp.dots_saveable)

        def f(w):
            def layer(x):
                for _ in range(3):
                    x = jnp.sin(EXACT("i,ij->j", x, w))
                return x

            inside = mark_dots(layer) if where == "inside" else layer
            x = jnp.ones(4)
            if kind == "scan":
                return lax.scan(lambda x, _: (inside(x), None), x, None, length=2)[0]
            return lax.cond(w[0, 0] < 0, inside, lambda x: x, x)

        return f if where == "inside" else mark_dots(f)

    return make


@pytest.mark.parametrize(
    ("kind", "where", "again"),
    [
        ("scan", "inside", (2, 3, 6)),
        ("scan", "around", (3, 3, 6)),  # the sine that the carry is runs again as well
        ("cond", "inside", (2, 3, 5)),  # the first dot's backward is for the weights alone
        ("cond", "around", (2, 3, 5)),
    ],
)
def test_dots_in_and_around_loops_and_branches(kind, where, again):
    make = dots_in(kind, where)
    assert in_backward(make(remat), M, ops=("sine", "cosine", "dot_general")) == again
    check(make, M)


# -- custom derivatives ------------------------------------------------------------------------


@jax.custom_jvp
def jvp_sine(x):
    return jnp.sin(x)


jvp_sine.defjvp(lambda x, t: (jvp_sine(x[0]), 2 * jnp.cos(x[0]) * t[0]))


@jax.custom_vjp
def vjp_sine(x):
    return jnp.sin(x)


vjp_sine.defvjp(lambda x: (vjp_sine(x), jnp.cos(x)), lambda cos, ct: (2 * cos * ct,))


@jax.custom_vjp
def vjp_sine_of_its_input(x):
    return jnp.sin(x)


vjp_sine_of_its_input.defvjp(
    lambda x: (vjp_sine_of_its_input(x), x), lambda x, ct: (jnp.cos(x) * ct,)
)
RULES = {"jvp": jvp_sine, "vjp": vjp_sine, "vjp_of_its_input": vjp_sine_of_its_input}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_the_users_is_the_derivative(rule):
    def make(mark):
        return mark(lambda x: RULES[rule](RULES[rule](x)))

    check(make, X, orders=(0, 1, 2, 3))
    assert in_backward(make(remat), X) == (1, 2)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_a_region_of_a_gradient_of_rules(rule):
    def make(mark):
        return jax.grad(mark(jax.grad(lambda x: RULES[rule](RULES[rule](x)))))

    check(make, X, orders=(0,))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("in_scan", [False, True])
def test_rules_and_dots(rule, in_scan):
    def make(mark):
        @functools.partial(mark, policy=cp.dots_saveable)
        def f(x):
            for _ in range(3):
                x = RULES[rule](EXACT("ij,jk->ik", x, x))
            return x

        if not in_scan:
            return f
        return lambda x: lax.scan(lambda x, _: (f(x), None), x, None, length=2)[0]

    check(make, M)
    assert in_backward(make(remat), M, ops=("sine", "dot_general")) == (2, 6)


def test_a_linear_rule():
    @jax.custom_jvp
    def total(x):
        return jnp.sum(x, axis=0)

    total.defjvp(lambda x, t: (total(x[0]), total(t[0])))

    def make(mark):
        f = mark(total, policy=cp.dots_saveable)
        return lambda x: jnp.sin(f(x)) + lax.scan(lambda _, x: (None, f(x)), None, x)[1]

    check(make, M, orders=(0, 1, 2))


def test_a_rule_of_a_dictionary():
    @jax.custom_vjp
    def product(d):
        return d["a"] * d["b"]

    product.defvjp(lambda d: (product(d), d), lambda d, ct: ({"a": ct * d["b"], "b": ct * d["a"]},))
    check(lambda mark: mark(lambda d: jnp.sin(product(d))), {"a": X, "b": X + 1})


def test_a_rule_with_static_arguments():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def f(k, x):
        return jnp.sin(k * x)

    f.defvjp(lambda k, x: (f(k, x), jnp.cos(k * x)), lambda k, cos, ct: (k * cos * ct,))
    check(lambda mark: mark(lambda x: f(2.0, x) * 3.0), X)


def test_a_rule_that_optimizes_remat():
    """The value of the function itself, not that of its fwd, which here is another."""

    @jax.custom_vjp
    def f(x):
        return jnp.tan(x)

    f.defvjp(lambda x: (jnp.sin(x), (x,)), lambda x, ct: (jnp.cos(*x) * ct,), optimize_remat=True)
    value, _ = run(jax.value_and_grad(lambda x: remat(f)(x) ** 2), X)
    close(value, np.tan(X) ** 2)


def in_one_trip(f, x):
    return lax.scan(lambda x, _: (f(x), None), x, None, length=1)[0]


def in_two_trips(f, x):
    return lax.scan(lambda x, _: (f(x), None), x, None, length=2)[0]


def in_a_branch(f, x):
    return lax.cond(jax.tree.leaves(x)[0].sum() > -np.inf, f, lambda x: x, x)


def in_jit(f, x):
    return jax.jit(lambda: f(x))()


def sine_whose_rule_is(inside):
    """A sine that makes its cosine, too, in one loop, branch or jitted function."""

    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        y, c = inside(lambda xs: (jnp.sin(xs[0]), jnp.cos(xs[1])), (x, x))
        return y, c * t

    sine.defjvp(rule)
    return sine


@pytest.mark.parametrize("inside", [in_jit, in_one_trip, in_a_branch])
@pytest.mark.parametrize("around", [in_one_trip, in_two_trips, in_a_branch])
def test_rules_with_loops_and_branches_inside(around, inside):
    sine = sine_whose_rule_is(inside)

    def again(policy, f=lambda x: around(sine, x)):
        return in_backward(remat(f, policy=policy), X)

    carries = int(around is not in_a_branch)  # a loop that runs again makes its carry
    assert again(saves("sin")) == (0, 1)
    assert again(cp.everything_saveable) == (0, 0)
    assert again(cp.nothing_saveable) == (carries, 1)
    twice = lambda x: around(sine, around(sine, x))  # noqa: E731
    assert again(cp.nothing_saveable, twice) == (1 + carries, 2)
    # A loop in a loop hands its cosine out, and still makes the outer one's carry.
    assert again(saves("cos")) == (int(carries and inside is in_one_trip), 0)
    f = remat(lambda x: around(sine, x), policy=saves("sin"))
    close(run(jax.grad(f), X), jax.grad(lambda x: around(sine, x))(X))


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_pytree", [False, True])
def test_a_named_input_of_a_dot(as_pytree):
    @functools.partial(remat, policy=cp.save_only_these_names("foo"))
    def f(x):
        product = jnp.dot(x, x)
        x = name({"a": product}, "foo")["a"] if as_pytree else name(product, "foo")
        return jnp.dot(x, x)

    argument, named = sources(f, M)
    assert argument == "from the argument x"
    assert named.startswith("named 'foo', output of dot_general")


def test_a_named_input_is_saved_as_the_argument():
    f = remat(lambda x: sin_sin(name(x, "x")), policy=cp.save_only_these_names("x"))
    assert sources(f, V) == ["from the argument x"]


def test_names_of_pytrees():
    def f(x):
        d = name({"a": jnp.sin(x), "b": [jnp.sin(x + 1)]}, "d")
        return jnp.sin(d["a"]) * jnp.sin(d["b"][0])

    g = remat(f, policy=cp.save_only_these_names("d"))
    assert sum("named 'd'" in s for s in kept(g, V)) == 2


NAMES, OPS = ["y", "z", "w"], [jnp.sin, jnp.cos, jnp.tanh]


@pytest.mark.parametrize("listed", [[], ["w"], ["z", "w"], ["y", "z", "w"]])
@pytest.mark.parametrize("deny", [False, True])
def test_allow_and_deny_lists(listed, deny):
    """Of four factors, one without a name, those that the list lets be saved are."""

    def f(x, a):
        y, z, w = (name(op(a), n) for op, n in zip(OPS, NAMES, strict=True))
        return (((x * y) * z) * w) * jnp.exp(a)

    make = cp.save_any_names_but_these if deny else cp.save_only_these_names
    g = remat(f, policy=make(*listed))
    found = kept(lambda x, a: g(x, lax.stop_gradient(a)), X, X)
    expected = [n for n in NAMES if (n in listed) != deny]
    assert [s.split(",")[0] for s in found] == [f"named '{n}'" for n in expected]


def test_names_of_constants_save_nothing():
    """What depends on nothing is made again: it costs no memory and XLA folds it."""

    def f(x):
        return (x * name(jnp.multiply(2.0, 2.0), "y")) * name(jnp.sin(jnp.ones(())), "z")

    assert sources(remat(f, policy=cp.save_only_these_names("y", "z")), X) == []


def test_anything_but_some_names_and_both_policies():
    def names_saved(policy):
        def f(x):
            for n in NAMES:
                x = name(jnp.sin(x), n)
            return jnp.sin(x)

        found = " ".join(kept(remat(f, policy=policy), V))
        return [n for n in NAMES if f"named '{n}'" in found]

    one = cp.save_only_these_names
    assert names_saved(cp.save_from_both_policies(one("y"), one("w"))) == ["y", "w"]
    # All the cosines are saved, and of the sines nothing is needed.
    assert names_saved(cp.save_anything_except_these_names("z")) == []


def test_names_under_vmap():
    f = remat(lambda x: name(x * 2.0, "y") ** 2, policy=cp.save_only_these_names("y"))
    (argument,) = kept(jax.vmap(f), M) or ["none"]
    assert argument.startswith("named 'y'")
    check(lambda mark: jax.vmap(f if mark is remat else lambda x: (x * 2.0) ** 2), M)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("policy", "cosines"), [(cp.save_only_these_names("cos"), 0), (None, 1)])
def test_a_name_in_the_fwd_of_a_custom_vjp(static, policy, cosines):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,) if static else ())
    def sine(*args):
        return jnp.sin(args[-1])

    def fwd(*args):
        return jnp.sin(args[-1]), name(jnp.cos(args[-1]), "cos")

    sine.defvjp(fwd, lambda *args: (args[-2] * args[-1],))
    f = remat(functools.partial(sine, "static") if static else sine, policy=policy)
    assert in_backward(f, V) == (0, cosines)
    close(run(jax.grad(lambda x: jnp.sum(f(x))), V), np.cos(V))


@pytest.mark.parametrize("where", ["straight", "dots"])
def test_which_values_are_offloaded(where):
    """The decisions of the module; carrying them out is refused, with the place."""
    if where == "straight":
        policy = cp.save_and_offload_only_these_names(
            names_which_can_be_saved=["y"],
            names_which_can_be_offloaded=["z", "w"],
            offload_src="device",
            offload_dst="pinned_host",
        )

        def f(x):
            y = name(jnp.sin(x), "y")
            z = name(jnp.sin(y), "z")
            w = name(jnp.sin(z), "w")
            return jnp.sum(w * z) + jnp.sum(jnp.sin(y))
    else:
        policy = cp.offload_dot_with_no_batch_dims("device", "pinned_host")

        def f(x):
            batched = jnp.einsum("nij,njk->nik", x[None], x[None])
            return jnp.sum(jnp.sin(x @ x)) + jnp.sum(jnp.sin(batched))

    lowered = jax.jit(jax.grad(remat(f, policy=policy))).lower(M)
    stages = "builtin.module(hlo-remat-inline,hlo-remat-partition)"
    text = hlo_remat.apply(lowered.as_text(), pipeline=stages)
    assert text.count('"offload"') == (2 if where == "straight" else 1)
    assert text.count('"save"') == (1 if where == "straight" else 0)
    with pytest.raises(hlo_remat.DiagnosticError, match="offloads a value of type"):
        hlo_remat.apply(lowered)


def scanned(f):
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]


def branched(f):
    return lambda x: lax.cond(jnp.sum(x) > 0, f, jnp.cos, x)


def sharded(f):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda mark, f: mark(scanned(f)),
        lambda mark, f: scanned(mark(f)),
        lambda mark, f: mark(branched(f)),
        lambda mark, f: branched(mark(f)),
        lambda mark, f: mark(sharded(f)),
        lambda mark, f: sharded(mark(f)),
        lambda mark, f: mark(scanned(branched(f))),
        lambda mark, f: mark(branched(scanned(f))),
        lambda mark, f: mark(sharded(scanned(f))),
        lambda mark, f: scanned(mark(scanned(f))),
        lambda mark, f: jax.vmap(mark(scanned(f)), in_axes=None, axis_size=2),
    ],
)
def test_an_offload_in_loops_and_branches_is_not_dropped(wrap, is_read):
    """Whether the backward reads the named value, or needs it for what it reads."""
    policy = cp.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["z"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def step(c):
        z = name(jnp.sin(jnp.sin(c)), "z")
        return jnp.sin(z * c if is_read else z)

    f = wrap(functools.partial(remat, policy=policy), step)
    with pytest.raises(hlo_remat.DiagnosticError, match="offloads a value of type"):
        rewritten(jax.grad(lambda x: jnp.sum(f(x))), V)


def test_a_name_is_saved_or_offloaded():
    with pytest.raises(ValueError, match=r"\['y'\] are in names_which_can_be_saved and in"):
        cp.save_and_offload_only_these_names(
            names_which_can_be_saved=["y"],
            names_which_can_be_offloaded=["y"],
            offload_src="device",
            offload_dst="pinned_host",
        )


# -- loops and branches ------------------------------------------------------------------------


def sine_twice(c, _):
    return jnp.sin(c), jnp.sin(c)


@pytest.mark.parametrize(("policy", "again"), [(None, (1, 2)), (saves("cos"), (0, 0))])
def test_a_region_of_a_scan(policy, again):
    def make(mark):
        return mark(lambda x: lax.scan(sine_twice, x, None, length=3), policy=policy)

    assert in_backward(make(remat), X) == again
    check(make, X, orders=(1, 2))


def test_a_region_of_a_scan_keeps_the_arguments_only():
    def products(x):
        return lax.scan(lambda s, x: (x * s, s), jnp.ones((2, 3)), x)

    assert sources(remat(products), np.ones((4, 2, 3), np.float32)) == ["from the argument x"]


def test_a_stacked_output_whose_gradient_is_not_asked():
    def make(mark):
        def step(c, a):
            b = jnp.sum(jnp.sin(a)) + jnp.sum(jnp.sin(c))
            return jnp.sin(c * b), b

        f = mark(functools.partial(lax.scan, step), policy=cp.nothing_saveable)
        return lambda c, a: f(c, a)[0]

    check(make, V, M)


@pytest.mark.parametrize("kind", ["scan", "cond"])
def test_a_constant_in_the_rule_of_a_loop(kind):
    @jax.custom_jvp
    def f(x):
        return x * jnp.arange(6.0)

    f.defjvp(lambda x, t: (f(x[0]), t[0] * jnp.arange(6.0)))

    def make(mark):
        if kind == "scan":
            return mark(lambda x: in_one_trip(f, x))
        return mark(lambda x: lax.cond(x.sum() > 0, f, lambda x: x, x))

    check(make, V + 1)


@pytest.mark.parametrize(
    ("branches", "policy", "again"),
    [
        ((lambda c: sine_twice(c, 0), lambda c: sine_twice(c, 0)), None, (0, 4)),
        ((sin_sin, lambda c: c), None, (1, 2)),
        ((jnp.sin, lambda c: c), saves("cos"), (0, 0)),
        ((sin_sin, lambda c: c), cp.everything_saveable, (0, 0)),
    ],
)
def test_a_region_of_a_cond(branches, policy, again):
    def make(mark):
        return mark(lambda x: lax.cond(x > 0.0, *branches, x), policy=policy)

    assert in_backward(make(remat), X) == again
    check(make, X, orders=(1, 2))
    check(make, -X, orders=(1,))


def test_a_region_whose_branches_read_another_argument():
    def make(mark):
        def f(x, y):
            return lax.cond(x < 3, lambda: 2.0 * jnp.sin(y), lambda: 2.0 * jnp.cos(x))

        return lambda x, y: mark(f)(x, y) + jax.jit(mark(f))(y, x)

    check(make, X, X + 3, orders=(0, 1, 2))


@pytest.mark.parametrize("policy", [None, saves("cos")])
def test_a_region_of_a_while_loop(policy):
    """Forward mode only: no policy can save what a loop of unknown length makes."""

    def loop(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1]

    f = remat(loop, policy=policy)
    derivative = lambda x, t: jax.linearize(f, x)[1](t)  # noqa: E731
    close(run(derivative, X, X), X * jax.grad(lambda x: jnp.sin(sin_sin(x)))(X))
    assert [in_program(op, derivative, X, X) for op in ("sine", "cosine", "while")] == [1, 1, 1]


def test_what_a_while_loop_does_not_save_is_a_remark(capsys):
    def f(x):
        c = lax.while_loop(lambda c: c < 3, lambda c: c + jnp.sin(c), lax.stop_gradient(x))
        return x * jnp.cos(c)

    marked = remat(f, policy=saves("sin"))
    lowered = jax.jit(jax.grad(marked)).lower(X)
    close(hlo_remat.apply(lowered, remarks=True).compile()(X), jax.grad(f)(X))
    (line,) = capsys.readouterr().err.splitlines()
    assert "which the policy of region 'f' saves, is computed again: it can't be handed out" in line


def test_a_while_loop_that_swaps_its_carries():
    f = remat(lambda x, y: sum(lax.while_loop(lambda _: False, lambda c: c[::-1], (x, y))))
    assert run(lambda x, y: jax.linearize(f, x, y)[1](x, y), X, X) == 2 * X


def test_a_while_loop_beside_the_differentiated():
    def make(mark):
        @mark
        def f(x):
            n = lax.while_loop(lambda s: s < 4, lambda s: s + 1, lax.convert_element_type(x, int))
            return sin_sin(x) * n

        return f

    check(make, X, orders=(1, 2))


# -- caching and leaks -------------------------------------------------------------------------


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("transform", ["call", "vjp", "linearize"])
def test_one_trace_for_equal_arguments(transform, static):
    traces = []

    @functools.partial(remat, static_argnums=(1,) if static else ())
    def f(x, *n):
        traces.append(n)
        return sin_sin(x)

    arguments = (2,) if static else ()
    for _ in range(5):
        g = lambda x: f(x, *arguments)  # noqa: E731
        if transform == "vjp":
            jax.vjp(g, X)[1](X)
        elif transform == "linearize":
            jax.linearize(g, X)[1](X)
        else:
            g(X)
    assert traces == [arguments]


_lowerings: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: _lowerings.append(event) if "to_mlir" in event else None
)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("what", ["tangents", "cotangents", "values"])
def test_one_lowering_for_many_calls(what, static):
    """Without jit: what is called again and again is lowered once."""
    double = jax.jit(lambda x: 2 * x)
    f = remat(lambda x, flag: double(x) if flag else x, static_argnums=1) if static else None
    g = (lambda x: f(x, True)) if static else remat(double)
    if what == "tangents":
        call = functools.partial(jax.linearize(g, 1.0)[1], 1.0)
    elif what == "cotangents":
        call = functools.partial(jax.vjp(g, 1.0)[1], 1.0)
    else:
        call = lambda: jax.vjp(g, 1.0)[0]  # noqa: E731
    call()
    _lowerings.clear()
    for _ in range(5):
        assert float(jax.tree.leaves(call())[0]) == 2
    assert _lowerings == []


def test_no_leaked_tracers():
    policy = cp.save_only_these_names("block")
    block = remat(lambda h, w: name(h * jnp.sin(w), "block"), policy=policy)
    with jax.checking_leaks():
        jax.jit(remat(lambda x: x + 1))(V)
        jax.jit(jax.grad(lambda w: lax.scan(lambda c, w: (block(c, w), None), 1.0, w)[0]))(V)


def test_arguments_that_a_jitted_function_hands_through():
    for seed in range(4):
        random = np.random.RandomState(seed)
        order, out = random.permutation(3), random.permutation(3)

        def make(mark, order=order, out=out):
            @jax.jit
            def inner(*args):
                moved = [args[i] for i in order]
                results = [moved[0], jnp.sin(moved[1]) * moved[2], moved[2]]
                return [results[i] for i in out]

            return mark(lambda *args: inner(*inner(*args)))

        check(make, X, X + 1, X + 2, orders=(0, 1))


# -- effects, keys, checks ---------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_prints_are_not_repeated(ordered):
    """JAX prints again where it recomputes; here what has effects never runs twice."""

    @remat
    def f(x):
        z = name((x + 1.0) * 2.0, "z")
        jax.debug.print("z: {}", z, ordered=ordered)
        return jnp.exp(jnp.sin(z))

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run(jax.grad(f), np.float32(2))
        jax.effects_barrier()
    assert out.getvalue() == "z: 6.0\n"


def test_a_callback_with_effects_runs_once():
    """JAX refuses it."""
    calls = []

    @remat
    def f(x, y):
        io_callback(lambda y: calls.append(float(y)), None, y)
        return sin_sin(x)

    close(run(jax.grad(f), X, np.float32(3)), jax.grad(sin_sin)(X))
    jax.effects_barrier()
    assert calls == [3.0]


@pytest.mark.parametrize("jitted", [False, True])
def test_checks(jitted):
    @remat
    def f(x):
        checkify.check(jnp.all(x > 0), "x must be positive")
        return x + 1

    g = checkify.checkify(jax.jit(f) if jitted else f)
    assert g(V + 2)[0].get() is None
    assert g(V)[0].get().startswith("x must be positive")


def test_checks_of_a_gradient_of_a_mapped_region():
    def loss(x):
        return jnp.sum(remat(lambda x: lax.map(lambda x: jnp.sin(x * V[5]), x))(x))

    error, gradient = run(checkify.checkify(jax.grad(loss)), V)
    error.throw()
    close(gradient, np.cos(V))


@pytest.mark.parametrize("gradient", [False, True])
def test_key_reuse_is_found_in_a_region(gradient):
    def once(x, key):
        return x * jax.random.uniform(name(key, "key"))

    def twice(x, key):
        return x * jax.random.uniform(key) + jax.random.uniform(key)

    transform = jax.value_and_grad if gradient else lambda f: f
    args = X, jax.random.key(0)
    expected = jax.jit(transform(once))(*args)
    with jax.debug_key_reuse(True):
        close(jax.jit(transform(remat(once)))(X, jax.random.key(0)), expected)
        with pytest.raises(jax.errors.KeyReuseError):
            jax.jit(transform(remat(twice)))(X, jax.random.key(0))
        with pytest.raises(jax.errors.KeyReuseError):
            jax.jit(lambda x, key: remat(once)(x, key) * remat(once)(x, key))(X, jax.random.key(0))


# -- mutable arrays ----------------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_a_mutable_array_made_inside(jitted):
    @remat
    def f(y, x):
        ref = jax.new_ref(x)
        out = jnp.sin(y * ref[...])
        ref[...] += 1
        return out

    grad = jax.grad(jax.jit(f) if jitted else f)
    close(run(grad, X, np.float32(2)), 2 * np.cos(2 * X))


@pytest.mark.parametrize("closed_over", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_mutable_array_from_outside(closed_over, nested):
    """It is written once, by the forward."""

    def total(y):
        ref = jax.new_ref(jnp.float32(1))

        def f(y, inner):
            out = jnp.sin(y * y)
            inner[...] += lax.stop_gradient(out)
            return out

        g = (lambda y: f(y, ref)) if closed_over else f
        marked = remat(remat(g)) if nested else remat(g)
        gradient = jax.grad(marked)(*((y,) if closed_over else (y, ref)))
        return ref[...], gradient

    close(run(total, X), (1 + np.sin(X * X), 2 * X * np.cos(X * X)))


def test_a_mutable_array_in_a_jitted_function():
    @jax.jit
    def read(ref):
        return jax.jit(lambda x: x + ref[...])(jnp.zeros(6))

    close(run(jax.grad(remat(lambda x: jnp.sum(read(jax.new_ref(x))))), V), np.ones(6))


@pytest.mark.xfail(strict=True, reason="jax.make_jaxpr takes no view of a mutable array")
def test_a_view_of_a_mutable_array():
    def total(x):
        ref = jax.new_ref(x)

        def add(view):
            view[...] += jnp.ones(2)

        remat(add)(ref.at[1:3])
        return ref[...]

    close(run(total, V), V + np.float32([0, 1, 1, 0, 0, 0]))


def test_a_rule_that_writes_the_gradient():
    @jax.custom_vjp
    def stash(ref, x):
        return x

    def bwd(ref, ct):
        ref[...] = ct
        return None, ct

    stash.defvjp(lambda ref, x: (x, ref), bwd)

    def total(y):
        ref = jax.new_ref(jnp.float32(0))
        f = remat(lambda ref, y: jnp.sin(stash(ref, jnp.sin(y))))
        return jax.grad(f, argnums=1)(ref, y), ref[...]

    close(run(total, X), (jax.grad(sin_sin)(X), np.cos(np.sin(X))))


@pytest.mark.skipif(
    not hasattr(jax.vjp(jnp.sin, 1.0)[1], "with_refs"), reason="JAX's vjp takes no references yet"
)
def test_gradients_into_mutable_arrays():
    def total(x):
        value, pull_back = jax.vjp(remat(sin_sin), x)
        ref = jax.new_ref(jnp.float32(1))
        pull_back.with_refs(ref)(jnp.float32(1))
        return value, ref[...]

    close(run(total, X), (sin_sin(X), 1 + jax.grad(sin_sin)(X)))


# -- errors, op names, numerics ------------------------------------------------------------------


def message(f, *args):
    """The message of the concretization error, and its traceback."""
    with pytest.raises(jax.errors.ConcretizationTypeError) as error:
        f(*args)
    return str(error.value), "".join(traceback.format_exception(error.value))


def positive(x):
    return x if x > 0 else jnp.sin(x)


@pytest.mark.parametrize("static", [False, True])
def test_a_concretization_error_shows_the_users_line(static):
    if static:
        f = functools.partial(remat, static_argnums=1)(lambda x, _: positive(x))
    else:
        f = remat(positive)
    text, frames = message(f, 3.0, *([1.0] if static else []))
    assert "hlo_remat.checkpoint(fun, static_argnums=...)" in text
    assert "test_jax_parity.py" in text
    assert "hlo_remat/frontend" not in text
    assert "if x > 0" in frames


def test_a_static_array_is_still_traced():
    text, _ = message(functools.partial(remat, static_argnums=0)(positive), jnp.array(3.0))
    assert "static_argnums" in text


def test_a_concretization_error_of_no_argument():
    @remat
    def f(x):
        jax.jit(lambda: 1 if jnp.add(1, 1) else 2)()
        return jnp.sin(x)

    text, _ = message(f, 3.0)
    assert "static_argnums" not in text


@pytest.mark.parametrize("direct", [True, False])
def test_an_escaped_tracer_is_an_error(direct):
    def f():
        state = [jnp.zeros([])]

        def step():
            state[0] += 1
            return state[0]

        remat(step)()
        return remat(step if direct else lambda: step())()

    if direct:  # one trace for both calls, so that the second adds nothing
        jax.jit(f)()
    else:
        with pytest.raises(jax.errors.UnexpectedTracerError, match="global state"):
            jax.jit(f)()


def locations(f, *args):
    return rewritten(f, *args).as_text(debug_info=True)


def test_recomputed_ops_say_so():
    assert "rematted_computation" in locations(jax.grad(remat(sin_sin)), X)
    assert "remat" not in locations(lambda x: remat(sin_sin)(x), X)


@pytest.mark.parametrize("in_loop", [False, True])
def test_recomputed_ops_have_op_names(in_loop):
    """What profilers show: the backward's path, the recompute, and the user's scope in it."""

    def f(x):
        with jax.named_scope("mine"):
            return jnp.exp(sin_sin(x))

    def scanned(x):
        return lax.scan(lambda c, _: (remat(f)(c), None), x, None, length=3)[0]

    text = rewritten(jax.grad(scanned if in_loop else remat(f)), X).compile().as_text()
    (path,) = set(re.findall(r'op_name="jit\(\w+\)/([^"]*/rematted_computation/[^"]*/sin)"', text))
    outer, inner = path.split("/rematted_computation/")
    assert outer.startswith("transpose(jvp(")
    assert "jit(" not in inner
    assert "mine" in inner


def test_recomputed_ops_keep_their_metadata():
    def f(x):
        with set_xla_metadata(tag="mine"):
            return sin_sin(x)

    text = rewritten(jax.value_and_grad(remat(f)), X).as_text()
    sines = re.findall(r"stablehlo.sine .*", text)
    assert len(sines) == 3
    assert all('tag = "mine"' in s for s in sines)


@pytest.mark.parametrize("policy", [None, cp.everything_saveable])
def test_excess_precision(policy):
    """What the backward sees of a bf16 value is what the forward saw."""

    @jax.custom_vjp
    def dot(x):
        return jnp.dot(x, x)

    dot.defvjp(lambda x: (dot(x), None), lambda _, ct: (ct,))

    @jax.custom_vjp
    def widen(x):
        return jnp.float32(1) * x.astype(jnp.float32)

    widen.defvjp(lambda x: (widen(x), x), lambda x, _: (jnp.float32(1) * x.astype(jnp.float32),))
    x = (jnp.bfloat16(1) + jnp.finfo(jnp.bfloat16).eps) * jnp.eye(2, dtype=jnp.bfloat16)
    f = jax.jit(remat(lambda x: widen(dot(x)), policy=policy))

    def both(x):
        y, pull_back = jax.vjp(f, x)
        return y, pull_back(jnp.ones_like(y))[0]

    forward, backward = run(both, x)
    np.testing.assert_array_equal(forward, backward)


# -- four devices ------------------------------------------------------------------------------

FOUR_DEVICES = """
import functools, jax, jax.numpy as jnp, numpy as np, hlo_remat
from backward_ops import backward_ops
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

remat, cp = hlo_remat.checkpoint, hlo_remat.checkpoint_policies
everything = functools.partial(remat, policy=cp.everything_saveable)
mesh = Mesh(np.array(jax.devices()), ("i",))
square = Mesh(np.array(jax.devices()).reshape(2, 2), ("i", "j"))
smap = functools.partial(jax.shard_map, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
X = np.arange(8, dtype=np.float32)

def sin_sin(x):
    return jnp.sin(jnp.sin(x))

def gradient(f, x=X):
    return hlo_remat.apply(jax.jit(jax.grad(lambda x: jnp.sum(f(x)))).lower(x)).compile()(x)

def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)

def again(f, *ops):
    return tuple(backward_ops(f, X)[op] for op in ops or ("sine", "cosine"))

def sources(f):
    return [r.source.split(" from <")[0] for r in hlo_remat.saved_residuals(f, X)]

expected = np.cos(np.sin(X)) * np.cos(X)
"""
SHARDED = {
    "a region of a shard_map": """
f = remat(smap(sin_sin))
close(gradient(f), expected)
assert again(f) == (1, 2) and sources(f) == ["from the argument x"]
f = everything(smap(sin_sin))
close(gradient(f), expected)
assert again(f) == (0, 0) and sources(f) == ["output of cos"] * 2
""",
    "a shard_map of a region": """
close(gradient(smap(remat(sin_sin))), expected)
assert again(smap(remat(sin_sin))) == (1, 2)
close(gradient(smap(everything(sin_sin))), expected)
assert again(smap(everything(sin_sin))) == (0, 0)
""",
    "collectives run again": """
f = remat(smap(lambda x: lax.all_gather(x, "i") * lax.all_gather(x, "i")))
assert sources(f) == ["from the argument x"]
assert again(f, "all_gather") == (2,)
""",
    "scalars that are residuals": """
plain = smap(lambda x: jnp.sin(jnp.sin(jnp.sin(x.sum()))[None]))
close(gradient(everything(plain)), gradient(plain))
""",
    "outputs that are residuals": """
for jit in (jax.jit, lambda f: f):
    f = everything(jit(smap(jnp.exp)))
    assert again(f, "exponential") == (0,) and sources(f) == ["output of exp"]
    close(gradient(f), np.exp(X))
pair = smap(lambda x: (jnp.exp(x), jnp.exp(x)))
close(gradient(everything(lambda x: pair(x)[1])), np.exp(X))
mixed = smap(lambda x: (jnp.exp(x.sum()) + x, jnp.exp(x)))
close(gradient(lambda x: sum(everything(mixed)(x))), gradient(lambda x: sum(mixed(x))))
""",
    "axis indices": """
f = everything(smap(lambda x: jnp.exp(x) + lax.axis_index("i").astype(x.dtype)))
close(gradient(f), np.exp(X))
index = smap(lambda x: lax.scan(lambda c, _: (c, lax.axis_index("i")), None, None, length=1)[1])
close(gradient(lambda x: remat(index)(x).astype(x.dtype)), np.zeros(8))
""",
    "a name outside that the body reads": """
def f(x):
    y = hlo_remat.checkpoint_name(jnp.sin(x), "foo")
    return jnp.sum(smap(lambda x: x * jnp.cos(y).sum())(x))
g = remat(f, policy=cp.save_only_these_names("foo"))
assert sources(g) == ["from the argument x", "named 'foo', output of sin"]
close(gradient(g), gradient(f))
""",
    "two meshes' axes and vmap": """
f = jax.shard_map(jnp.dot, mesh=square, in_specs=(P("j"), P("i")), out_specs=P("i", "j"))
a, b = np.ones((4, 2), np.float32), np.ones((4, 3), np.float32)
loss = lambda f: lambda a: f(a, b * 2)
close(gradient(loss(everything(f)), a), gradient(loss(f), a))
sine = jax.shard_map(jnp.sin, mesh=square, in_specs=P("j"), out_specs=P("j"))
rows = X.reshape(2, 4)
per_row = jax.vmap(jax.grad(lambda x: jnp.sum(everything(sine)(x))), spmd_axis_name="i")
close(hlo_remat.apply(jax.jit(per_row).lower(rows)).compile()(rows), np.cos(rows))
""",
    "a rule that optimizes remat": """
@jax.custom_vjp
def f(x):
    return jnp.tan(x)
f.defvjp(lambda x: (lax.psum(x, "i"), (x,)), lambda x, ct: (jnp.cos(*x) * ct,), optimize_remat=True)
g = jax.shard_map(lambda x: remat(f)(x) ** 2, mesh=mesh, in_specs=P(), out_specs=P())
assert np.all(np.isfinite(gradient(g)))
""",
    "pmap": """
rows = X.reshape(4, 2)
close(gradient(remat(jax.pmap(sin_sin)), rows), expected.reshape(4, 2))
close(jax.grad(lambda x: jnp.sum(jax.pmap(remat(sin_sin))(x)))(rows), expected.reshape(4, 2))
""",
    "a region of a shard_map of a region": """
assert again(everything(smap(remat(sin_sin)))) == (1, 2)
""",
    "what a shard_map of a region keeps": """
assert sources(smap(remat(sin_sin))) == ["from the argument x"]
""",
}
KNOWN = ["a region of a shard_map of a region", "what a shard_map of a region keeps"]


@pytest.fixture(scope="module")
def on_four_devices():
    """What each program of SHARDED says, all run in one process."""
    runner = """
import json, sys, traceback
programs, results = json.loads(sys.argv[1]), {}
for title, program in programs.items():
    try:
        exec(program, globals())
        results[title] = "ok"
    except Exception:
        results[title] = traceback.format_exc()
print(json.dumps(results))
"""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    command = [sys.executable, "-c", FOUR_DEVICES + runner, json.dumps(SHARDED)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("title", [t for t in SHARDED if t not in KNOWN])
def test_shard_map(on_four_devices, title):
    assert on_four_devices[title] == "ok"


@pytest.mark.parametrize("title", KNOWN)
def test_regions_in_a_shard_map_in_a_region(on_four_devices, title):
    assert on_four_devices[title] == "ok"
