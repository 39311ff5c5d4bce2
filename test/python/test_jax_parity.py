# SPDX-License-Identifier: Apache-2.0
"""Every behaviour that JAX's own tests of its remat ask for, at the level of the module.

docs/parity.md says which of them is where, and which can't be asked of a module.
"""

from __future__ import annotations

import functools
import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_remat

cp = hlo_remat.checkpoint_policies
remat = hlo_remat.checkpoint
X = np.float32(0.7)
V = np.linspace(-1, 1, 6, dtype=np.float32)
M = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


def rewritten(f, *args):
    return hlo_remat.apply(jax.jit(f).lower(*args))


def count(op, f, *args):
    """How often an op stands in the rewritten program."""
    return len(re.findall(rf"stablehlo\.{op}\b", rewritten(f, *args).as_text()))


def check(make, *args, order=1):
    """`make(mark)` gives the values and derivatives of plain JAX, up to an order."""
    for n in range(order + 1):
        marked, plain = make(remat), make(lambda f, **_: f)
        for _ in range(n):
            marked, plain = summed_gradient(marked), summed_gradient(plain)
        actual = rewritten(marked, *args).compile()(*args)
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=1e-5),
            actual,
            jax.jit(plain)(*args),
        )


def summed_gradient(f):
    return jax.grad(lambda *args: sum(jnp.sum(v) for v in jax.tree.leaves(f(*args))))


def kept(f, *args):
    """The sources of what is saved, without those that are arguments."""
    residuals = hlo_remat.saved_residuals(f, *args)
    return [r.source for r in residuals if "argument" not in r.source]


# -- basics ------------------------------------------------------------------------------------


def test_values_and_higher_derivatives():
    check(lambda mark: lambda x: jnp.sin(mark(lambda x: jnp.sin(jnp.sin(x)))(x)), X, order=3)


def test_closed_over_values():
    def make(mark):
        def f(x):
            y = jnp.sin(x)
            return mark(lambda z: jnp.sin(z) * y * jnp.sin(x))(jnp.cos(y))

        return f

    check(make, X, order=2)


def test_python_control_flow_on_static_arguments():
    @functools.partial(remat, static_argnums=(1, 2))
    def f(x, positive, modes):
        return jnp.sin(x) if positive and modes == ["a"] else jnp.cos(x)

    def g(x):
        return f(x, True, ["a"]) + f(x, False, ["b"])

    np.testing.assert_allclose(rewritten(jax.grad(g), X).compile()(X), np.cos(X) - np.sin(X), 1e-6)


def test_one_trace_for_equal_arguments():
    traces = []

    @functools.partial(remat, static_argnums=(1,))
    def f(x, n):
        traces.append(n)
        return jnp.sin(x) * n

    jax.jit(lambda x: f(x, 1) + f(x + 1, 1) + f(x, 2))(X)
    assert traces == [1, 2]


@pytest.mark.parametrize("inner", [True, False])
def test_jit_inside_and_outside(inner):
    def make(mark):
        f = lambda x, y: jnp.sin(x) * jnp.sin(jnp.sin(y))  # noqa: E731
        g = mark(jax.jit(f)) if inner else jax.jit(mark(f))
        return lambda x: jnp.sin(g(x, jnp.cos(x)))

    check(make, X, order=2)


def test_jit_with_static_arguments():
    f = jax.jit(remat(lambda n, x: jnp.sin(x) ** n, static_argnums=0), static_argnums=0)
    lowered = jax.jit(jax.grad(lambda x: f(3, x))).lower(X)
    expected = jax.grad(lambda x: jnp.sin(x) ** 3)(X)
    np.testing.assert_allclose(hlo_remat.apply(lowered).compile()(X), expected, rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_vmap(axis):
    make = lambda mark: jax.vmap(mark(lambda x: jnp.sin(jnp.sin(x) @ x)), in_axes=axis)  # noqa: E731
    check(make, M, order=2)


def test_forward_mode_keeps_the_region():
    """A region that only goes forward has nothing to recompute, and leaves nothing behind."""
    f = remat(lambda x: jnp.sin(jnp.sin(x)))
    text = rewritten(lambda x, t: jax.jvp(f, (x,), (t,)), X, X).as_text()
    assert text.count("stablehlo.sine") == 2
    assert "hlo_remat" not in text


def test_scan():
    def make(mark):
        step = mark(lambda c: jnp.sin(jnp.sin(c)))
        return lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=3)[0]

    check(make, X, order=2)


def test_reverse_mode_of_a_scan_of_matrices():
    def make(mark):
        step = mark(lambda x, w: jnp.dot(jnp.sin(x), w, precision=lax.Precision.HIGHEST))
        return lambda w, x: lax.scan(lambda x, w: (step(x, w), None), x, jnp.stack([w, w]))[0]

    check(make, M, M[0])


# -- how often things run ----------------------------------------------------------------------


def test_no_redundant_flops():
    """The region whose outputs nothing needs to differentiate is not run again."""

    def f(x):
        y = remat(lambda x: jnp.sin(jnp.sin(x)))(lax.stop_gradient(x))
        return y * jnp.cos(x)

    assert count("sine", jax.grad(f), X) <= 3  # two forward, one of the cosine's


@pytest.mark.parametrize(("depth", "sines"), [(1, 1), (2, 3), (3, 8), (4, 20)])
def test_recursive_checkpointing_counts(depth, sines):
    """Halves in halves: each region runs its first half again, and what is in that."""

    def halves(functions):
        if len(functions) == 1:
            return functions[0]
        middle = len(functions) // 2
        first, second = halves(functions[:middle]), halves(functions[middle:])
        return remat(lambda x: second(remat(first)(x)))

    f = halves([jnp.sin] * 2 ** (depth - 1))
    text = rewritten(jax.grad(f), X).as_text()
    assert text.count("stablehlo.sine") <= sines
    np.testing.assert_allclose(
        rewritten(jax.grad(f), X).compile()(X),
        jax.grad(lambda x: functools.reduce(lambda x, _: jnp.sin(x), range(2 ** (depth - 1)), x))(
            X
        ),
        rtol=1e-5,
    )


def test_runs_again_once():
    """A region's forward runs once more in the backward, not twice."""
    f = lambda x: jnp.sin(remat(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))(x))  # noqa: E731
    # Forward: 4. Of the region's three, the last is not needed by the backward.
    assert count("sine", jax.grad(f), X) == 3 + 2
    assert count("sine", lambda x: f(x), X) == 4


def test_dropped_outputs():
    def f(x):
        y, _ = remat(lambda x: (jnp.sin(jnp.sin(x)), jnp.exp(jnp.exp(x))))(x)
        return y

    assert count("exponential", jax.grad(f), X) == 0
    assert count("sine", jax.grad(f), X) == 1


def test_dropped_inputs_of_a_policy():
    def f(x):
        return remat(lambda x: (x * 2, jnp.sin(jnp.sin(x)))[1], policy=cp.everything_saveable)(x)

    assert count("sine", jax.grad(f), X) == 1


def test_symbolic_zero_cotangents():
    def f(x):
        outs = remat(lambda x: [jnp.sin(jnp.sin(x)), jnp.cos(jnp.cos(x)), x > 0])(x)
        return outs[0]

    check(lambda mark: f, X, order=2)


def test_outputs_that_are_inputs():
    """What a region hands through is neither saved twice nor computed."""

    def f(x):
        y, same = remat(lambda x: (jnp.sin(jnp.sin(x)), x))(x)
        return y * same

    assert kept(f, V).count("output of sin") <= 1
    check(lambda mark: f, V, order=2)


def test_outputs_that_are_residuals():
    """An output of the region that its backward reads is not kept a second time."""
    f = remat(lambda x: jnp.exp(x), policy=cp.everything_saveable)
    sources = kept(lambda x: jnp.sum(jnp.tanh(f(x))), V)
    assert sum("output of exp" in s for s in sources) == 1


def test_constants_stay_constants():
    """An array that a region closes over is told from what is computed."""
    table = np.arange(6, dtype=np.float32)
    f = remat(lambda x: jnp.sum(jnp.sin(jnp.sin(x)) * table))
    assert kept(f, V) == ["from a constant"]


def test_an_op_without_used_inputs():
    """A value that depends on no input of the region is right where it is used."""
    check(lambda mark: mark(lambda x: jnp.sin(x) * jnp.cos(lax.iota(jnp.float32, 6))), V, order=2)


# -- fences ------------------------------------------------------------------------------------


def fences(text):
    return len(re.findall(r"optimization_barrier|call @hlo_remat\.fenced", text))


def two_inputs(prevent_cse):
    f = remat(lambda w, x: jnp.sin(w * jnp.sin(x)), prevent_cse=prevent_cse)
    return rewritten(jax.grad(lambda w, x: jnp.sum(f(w, x)), argnums=(0, 1)), V, V).as_text()


@pytest.mark.parametrize(
    ("prevent_cse", "held"), [(True, 2), ((True, False), 1), ((False, True), 1), (False, 0)]
)
def test_partial_cse_prevention(prevent_cse, held):
    text = two_inputs(prevent_cse)
    operands = re.findall(r"(?:optimization_barrier|call @hlo_remat\.fenced\w*)\(? ?([^:)]*)", text)
    # The cotangent passes too.
    assert [len(o.split(",")) - 1 for o in operands] == ([held] if held else [])


@pytest.mark.parametrize("prefix", [{"a": False, "b": True}, True])
def test_cse_prevention_by_pytree_prefix(prefix):
    f = remat(lambda d: jnp.sin(d["a"] * jnp.sin(d["b"][0])), prevent_cse=(prefix,))
    text = rewritten(jax.grad(lambda d: jnp.sum(f(d))), {"a": V, "b": [V]}).as_text()
    assert fences(text) == 1


def test_no_fence_in_the_forward():
    assert fences(rewritten(remat(lambda x: jnp.sin(jnp.sin(x))), V).as_text()) == 0


def test_what_is_saved_needs_no_fence_of_its_own():
    f = remat(lambda x: jnp.sin(jnp.sin(x)), policy=cp.everything_saveable)
    text = rewritten(jax.grad(lambda x: jnp.sum(f(x))), V).as_text()
    assert text.count("stablehlo.sine") == 1


# -- policies ----------------------------------------------------------------------------------


def saves(*names):
    return lambda prim, *_, **__: prim.name in names


@pytest.mark.parametrize(
    ("policy", "sines"),
    [(saves("sin"), 3), (saves("cos"), 3), (saves(), 5), (cp.everything_saveable, 3)],
)
def test_custom_policies(policy, sines):
    """Two of three nested sines run again where neither they nor the cosines are saved."""
    f = remat(lambda x: jnp.sin(jnp.sin(jnp.sin(x))), policy=policy)
    assert count("sine", jax.value_and_grad(f), X) == sines
    assert count("cosine", jax.value_and_grad(f), X) == 3


def mlp(policy):
    def f(w, x):
        x = jnp.sin(jnp.dot(x, w, precision=lax.Precision.HIGHEST))
        x = jnp.sin(jnp.dot(x, w, precision=lax.Precision.HIGHEST))
        return jnp.sin(jnp.dot(x, w, precision=lax.Precision.HIGHEST))

    g = remat(f, policy=policy)
    return jax.value_and_grad(lambda w, x: jnp.sum(g(w, x)))


def test_dots():
    """Saved dots are not multiplied again; recomputed ones but the last are needed, and are."""
    assert count("dot_general", mlp(cp.dots_saveable), M, M) == 8
    assert count("dot_general", mlp(cp.dots_with_no_batch_dims_saveable), M, M) == 8
    assert count("dot_general", mlp(cp.nothing_saveable), M, M) == 11


def test_dots_with_batch_dimensions_run_again():
    def f(a, b):
        return jnp.sin(jnp.einsum("ijk,ikl->ijl", jnp.sin(a), b))

    a = np.ones((2, 3, 3), np.float32)

    def dots(policy):
        g = remat(f, policy=policy)
        return count("dot_general", jax.value_and_grad(lambda a: jnp.sum(g(a, a))), a)

    assert dots(cp.dots_with_no_batch_dims_saveable) == dots(cp.nothing_saveable)
    assert dots(cp.dots_saveable) == dots(cp.everything_saveable) < dots(cp.nothing_saveable)


def test_dots_inside_jit():
    plain = lambda w, x: jnp.sin(jnp.sin(x @ w) @ w)  # noqa: E731
    for f in (remat(jax.jit(plain), policy=cp.dots_saveable), jax.jit(plain)):
        n = count("dot_general", jax.value_and_grad(lambda w, f=f: jnp.sum(f(w, M))), M)
        assert n == 5


@pytest.mark.parametrize("where", ["inside", "around"])
def test_dots_and_scan(where):
    def step(x, w):
        return jnp.sin(jnp.sin(x @ w) @ w)

    def loss(policy):
        def f(w, x):
            if where == "inside":
                run = remat(step, policy=policy)
                return lax.scan(lambda x, w: (run(x, w), None), x, w)[0]
            return remat(
                lambda w, x: lax.scan(lambda x, w: (step(x, w), None), x, w)[0], policy=policy
            )(w, x)

        return jax.value_and_grad(lambda w, x: jnp.sum(f(w, x)))

    ws = np.stack([M, M, M])

    def dots(policy):
        compiled = rewritten(loss(policy), ws, M).compile()
        return len(re.findall(r"= \S+ dot\(|__onednn|__ynn", compiled.as_text()))

    assert dots(cp.dots_saveable) == dots(cp.everything_saveable) < dots(cp.nothing_saveable)


@pytest.mark.parametrize("where", ["inside", "around"])
def test_dots_and_cond(where):
    def branch(x, w):
        return jnp.sin(jnp.sin(x @ w) @ w)

    def dots(policy):
        def f(w, x):
            if where == "inside":
                return lax.cond(x[0, 0] > 0, remat(branch, policy=policy), lambda x, w: x, x, w)
            cond = remat(lambda p, x, w: lax.cond(p, branch, lambda x, w: x, x, w), policy=policy)
            return cond(x[0, 0] > 0, x, w)

        compiled = rewritten(jax.value_and_grad(lambda w, x: jnp.sum(f(w, x))), M, M).compile()
        return len(re.findall(r"= \S+ dot\(|__onednn|__ynn", compiled.as_text()))

    assert dots(cp.dots_saveable) == dots(cp.everything_saveable) < dots(cp.nothing_saveable)


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


sine.defjvp(lambda x, t: (sine(x[0]), jnp.cos(x[0]) * t[0]))


@jax.custom_vjp
def sine_with_vjp(x):
    return jnp.sin(x)


sine_with_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.cos(x) * ct,))


@jax.custom_jvp
def linear(x):
    return x


linear.defjvp(lambda x, t: (linear(x[0]), 3 * t[0]))


@pytest.mark.parametrize("rule", [sine, sine_with_vjp, linear], ids=["jvp", "vjp", "linear"])
@pytest.mark.parametrize("policy", [cp.nothing_saveable, saves("sin"), cp.everything_saveable])
@pytest.mark.parametrize("where", ["straight", "scan", "cond"])
def test_custom_derivatives_and_policies(rule, policy, where):
    def make(mark):
        def f(x):
            return rule(rule(jnp.sin(x)))

        if where == "straight":
            return mark(f, policy=policy)
        if where == "scan":
            return lambda x: lax.scan(
                lambda c, _: (mark(f, policy=policy)(c), None), x, None, length=2
            )[0]
        return mark(lambda x: lax.cond(x > 0, f, lambda x: x, x), policy=policy)

    order = 1 if rule is sine_with_vjp else 2
    check(make, X, order=order)


# -- names -------------------------------------------------------------------------------------


def test_a_named_input_is_saved_as_the_argument():
    f = remat(
        lambda x: jnp.sin(jnp.sin(hlo_remat.checkpoint_name(x, "x"))),
        policy=cp.save_only_these_names("x"),
    )
    assert not kept(lambda x: jnp.sum(f(x)), V)


def test_names_of_pytrees():
    def f(x):
        d = hlo_remat.checkpoint_name({"a": jnp.sin(x), "b": [jnp.sin(x + 1)]}, "d")
        return jnp.sin(d["a"]) * jnp.sin(d["b"][0])

    g = remat(f, policy=cp.save_only_these_names("d"))
    sources = kept(lambda x: jnp.sum(g(x)), V)
    assert sum("named 'd'" in s for s in sources) == 2


def three_names(policy):
    def f(x):
        a = hlo_remat.checkpoint_name(jnp.sin(x), "a")
        b = hlo_remat.checkpoint_name(jnp.sin(a), "b")
        c = hlo_remat.checkpoint_name(jnp.sin(b), "c")
        return jnp.sin(c)

    g = remat(f, policy=policy)
    found = " ".join(kept(lambda x: jnp.sum(g(x)), V))
    return {n for n in "abc" if f"named '{n}'" in found}


def test_allow_and_deny_lists():
    assert three_names(cp.save_only_these_names("a", "c")) == {"a", "c"}
    assert three_names(cp.save_any_names_but_these("a")) == {"b", "c"}
    assert "b" not in three_names(cp.save_anything_except_these_names("b"))
    both = cp.save_from_both_policies(cp.save_only_these_names("a"), cp.save_only_these_names("b"))
    assert three_names(both) == {"a", "b"}


def test_names_under_vmap():
    f = remat(
        lambda x: jnp.sin(hlo_remat.checkpoint_name(jnp.sin(x), "a")),
        policy=cp.save_only_these_names("a"),
    )
    assert any("named 'a'" in s for s in kept(lambda x: jnp.sum(jax.vmap(f)(x)), V))


@pytest.mark.parametrize("static", [False, True])
def test_a_name_in_the_fwd_of_a_custom_vjp(static):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,) if static else ())
    def f(x, *n):
        return jnp.sin(jnp.sin(x))

    def fwd(x, *n):
        a = hlo_remat.checkpoint_name(jnp.sin(x), "a")
        return jnp.sin(a), (x, a)

    def bwd(*args):
        (x, a), ct = args[-2:]
        return (ct * jnp.cos(a) * jnp.cos(x),)

    f.defvjp(fwd, bwd)
    args = (2,) if static else ()
    g = remat(lambda x: jnp.sin(f(jnp.sin(x), *args)), policy=cp.save_only_these_names("a"))
    assert any("named 'a'" in s for s in kept(lambda x: jnp.sum(g(x)), V))


# -- saved_residuals ---------------------------------------------------------------------------


def test_where_residuals_come_from():
    def f(x, y):
        z = hlo_remat.checkpoint_name(jnp.sin(x["a"] * y), "z")
        return jnp.sum(z * jnp.cos(x["b"]) * np.float32([3.0] * 6))

    args = {"a": V, "b": V + 1}, V
    residuals = hlo_remat.saved_residuals(f, *args)
    text = str(residuals)
    assert "from the argument x['a']" in text
    assert "from the argument y" in text
    assert "named 'z', output of sin from" in text
    assert "test_jax_parity.py" in text
    assert residuals.nbytes == sum(r.nbytes for r in residuals)
    assert "named 'z'" in str(hlo_remat.saved_residuals(jax.jit(f), *args))


def test_remarks_go_to_the_logger(caplog):
    f = remat(
        lambda x: hlo_remat.checkpoint_name(jnp.sin(jnp.sin(x)), "out"),
        policy=cp.save_only_these_names("out"),
    )
    with caplog.at_level(logging.INFO, "hlo_remat"):
        rewritten(jax.value_and_grad(f), X)
    assert "'out'" in caplog.text


# -- caching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["linearize", "vjp", "call"])
def test_one_trace_for_a_function(transform):
    traces = []

    def body(x):
        traces.append(1)
        return jnp.sin(jnp.sin(x))

    f = remat(body)

    def use(x):
        if transform == "linearize":
            return jax.linearize(f, x)[1](x)
        if transform == "vjp":
            return jax.vjp(f, x)[1](x)[0]
        return f(x)

    jax.jit(lambda x: use(x) + use(x + 1) + use(x + 2))(X)
    assert len(traces) == 1


# -- loops and branches ------------------------------------------------------------------------


def test_a_region_of_a_scan_keeps_its_inputs_only():
    f = remat(lambda xs: lax.scan(lambda c, x: (jnp.sin(c * x), jnp.sin(c)), 1.0, xs))
    assert not kept(lambda xs: jnp.sum(f(xs)[0] * f(xs)[1]), V) or all(
        "mul" in s or "sin" in s or "loop" in s for s in kept(lambda xs: jnp.sum(f(xs)[0]), V)
    )
    assert not kept(lambda xs: f(xs)[0], V)


def test_outputs_of_a_scan_whose_gradient_is_not_asked():
    def make(mark):
        f = mark(lambda xs: lax.scan(lambda c, x: (jnp.sin(c * x), (x, x * 2, c)), 1.0, xs))
        return lambda xs: f(xs)[0]

    check(make, V, order=2)


@pytest.mark.parametrize("policy", [cp.nothing_saveable, saves("sin"), saves("cos")])
def test_a_region_of_a_scan_and_policies(policy):
    def make(mark):
        step = lambda c, x: (jnp.sin(jnp.sin(c * x)), None)  # noqa: E731
        return mark(lambda xs: lax.scan(step, 1.0, xs)[0], policy=policy)

    check(make, V, order=2)


@pytest.mark.parametrize("policy", [cp.nothing_saveable, saves("sin"), cp.everything_saveable])
def test_a_region_of_a_cond(policy):
    def make(mark):
        f = lambda x: lax.cond(x > 0, lambda: jnp.sin(jnp.sin(x)), lambda: jnp.cos(x))  # noqa: E731
        return mark(f, policy=policy)

    check(make, X, order=2)
    check(make, -X, order=2)


@pytest.mark.parametrize("kind", ["scan", "cond"])
def test_constants_in_forward_mode(kind):
    """A constant that a tangent picks up in a loop or branch, as ints have."""

    def make(mark):
        @mark
        def f(x):
            if kind == "scan":
                return lax.scan(lambda c, i: (c * 2.0 + i, None), x, jnp.arange(3))[0]
            return lax.cond(x > 0, lambda: x * 2.0 + jnp.arange(3)[1], lambda: x)

        return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1] * jnp.sin(x)

    check(make, X)


@pytest.mark.parametrize("policy", [cp.nothing_saveable, cp.everything_saveable])
def test_a_region_of_a_while_loop(policy):
    def make(mark):
        @functools.partial(mark, policy=policy)
        def f(x):
            n = lax.while_loop(lambda s: s < 4, lambda s: s + 1, lax.convert_element_type(x, int))
            return jnp.sin(jnp.sin(x)) * n

        return f

    check(make, X, order=2)


def test_residuals_that_a_jitted_function_forwards():
    def f(x):
        y = jnp.sin(x)
        return remat(jax.jit(lambda y: (jnp.sin(y), y)))(y)[0] * y

    check(lambda mark: f, V, order=2)
    assert sum("sin" in s for s in kept(lambda x: jnp.sum(f(x)), V)) <= 2


# -- errors, names of ops, offload, numerics -----------------------------------------------------


def test_a_concretization_error_shows_the_users_line():
    @remat
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError, match="static_argnums"):
        jax.jit(jax.grad(f)).lower(X)


def test_an_escaped_tracer_is_an_error():
    leaked = []
    remat(lambda x: leaked.append(jnp.sin(x)) or x)(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jnp.sin(leaked[0])


def test_recomputed_ops_say_so():
    text = rewritten(jax.grad(remat(lambda x: jnp.sin(jnp.sin(x)))), X).as_text(debug_info=True)
    assert "rematted_computation" in text


@pytest.mark.parametrize(
    "policy",
    [
        cp.offload_dot_with_no_batch_dims("device", "pinned_host"),
        cp.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=["a"],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    ],
)
def test_offload_is_refused_by_name(policy):
    f = remat(lambda w: jnp.sin(hlo_remat.checkpoint_name(jnp.sin(w) @ w, "a")), policy=policy)
    with pytest.raises(hlo_remat.DiagnosticError, match="offloads a value of type"):
        rewritten(jax.grad(lambda w: jnp.sum(f(w))), M)


def test_a_recompute_has_the_forwards_precision():
    """bf16 values that are saved and those that run again are the same numbers."""

    def gradient(policy):
        f = remat(lambda x: jnp.sum(jnp.sin(jnp.sin(x) * 3).astype(jnp.float32)), policy=policy)
        x = jnp.linspace(0, 3, 64, dtype=jnp.bfloat16)
        return np.asarray(rewritten(jax.grad(f), x).compile()(x), np.float32)

    saved, run_again = gradient(cp.everything_saveable), gradient(cp.nothing_saveable)
    np.testing.assert_allclose(saved, run_again, rtol=2e-2, atol=2e-2)
