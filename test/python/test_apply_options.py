# SPDX-License-Identifier: Apache-2.0
"""The options of `apply`: targets, compiler options, pipelines, errors and remarks."""

from __future__ import annotations

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_regions import UNFENCED, WS, X, close, has_markers, loss, plain, step, temp_bytes

import hlo_remat
from hlo_remat.frontend.lowered import merge_options


@pytest.fixture(scope="module")
def lowered():
    return step.lower(WS, X)


@pytest.fixture(scope="module")
def expected():
    return plain(WS, X)


# -- targets and compiler options --------------------------------------------------------------


def test_cuda_without_a_gpu():
    lowered = step.trace(WS, X).lower(lowering_platforms=("cuda",))
    new = hlo_remat.apply(lowered)
    assert new.as_text().count("optimization_barrier") == 4
    assert new.hlo_remat_options == {}


def test_several_platforms():
    lowered = step.trace(WS, X).lower(lowering_platforms=("cpu", "cuda"))
    assert hlo_remat.apply(lowered).as_text().count("optimization_barrier") == 4


@pytest.mark.parametrize("jaxlib", ["0.10.2", "0.11.0", "0.11.1", "0.12.0.1"])
def test_target_and_version(lowered, monkeypatch, jaxlib):
    """Old XLA CPU gets calls, or is told to leave the barriers alone."""
    monkeypatch.setattr("jaxlib.version.__version__", jaxlib)
    old = jaxlib < "0.11.1"
    new = hlo_remat.apply(lowered)
    assert new.as_text().count("call @hlo_remat.fenced") == (4 if old else 0)
    assert new.as_text().count("optimization_barrier") == (0 if old else 4)
    assert new.hlo_remat_options == {}
    barrier = hlo_remat.apply(lowered, strategy="optimization-barrier")
    assert barrier.hlo_remat_options == (OURS if old else {})
    assert hlo_remat.apply(lowered, target="gpu").hlo_remat_options == {}


OURS = {"xla_disable_hlo_passes": "cse_barrier_expander"}


@pytest.mark.parametrize(
    ("users", "merged"),
    [
        ({}, OURS),
        ({"xla_cpu_x": True}, {"xla_cpu_x": True, **OURS}),
        (
            {"xla_disable_hlo_passes": "remat-pass"},
            {"xla_disable_hlo_passes": "remat-pass,cse_barrier_expander"},
        ),
        (OURS, OURS),
        ({"xla_disable_hlo_passes": ""}, OURS),
    ],
)
def test_options_are_merged(users, merged):
    given = dict(users)
    assert merge_options(users, OURS) == merged
    assert users == given


def test_the_users_option_wins():
    assert merge_options({"a": 1}, {"a": "2", "b": "3"}) == {"a": 1, "b": "3"}


@pytest.mark.parametrize("where", ["jit", "compile"])
def test_options_reach_xla(lowered, monkeypatch, where):
    """The barrier holds though the user disables passes too."""
    monkeypatch.setattr("jaxlib.version.__version__", "0.10.2")
    users = {"xla_disable_hlo_passes": "algsimp", "xla_backend_optimization_level": "0"}
    options = {"compiler_options": users}
    jitted = jax.jit(jax.value_and_grad(loss), **(options if where == "jit" else {}))
    new = hlo_remat.apply(jitted.lower(WS, X), strategy="optimization-barrier")
    compiled = new.compile(**(options if where == "compile" else {}))
    assert temp_bytes(compiled) < 0.7 * temp_bytes(lowered.compile())


# XLA CPU up to 0.11.0 makes one kernel of so small a loop, and aborts the process where a barrier
# is left in its body.
IN_LOOPS = {
    "scan": lambda f, x: jax.lax.scan(lambda c, _: (f(c), None), x, length=3)[0],
    "branch_in_loop": lambda f, x: jax.lax.scan(
        lambda c, _: (jax.lax.cond(c[0] > 0, f, jnp.sin, c), None), x, length=3
    )[0],
    "map": lambda f, x: jax.lax.map(f, jnp.stack([x, x])),
}


@pytest.mark.parametrize("strategy", ["auto", "optimization-barrier", "while"])
@pytest.mark.parametrize("mark", [hlo_remat.checkpoint, jax.checkpoint])
@pytest.mark.parametrize("program", IN_LOOPS)
def test_barriers_in_small_loops(program, mark, strategy):
    def gradient(mark):
        f = mark(lambda x: jnp.sin(jnp.sin(x)))
        return jax.jit(jax.value_and_grad(lambda x: IN_LOOPS[program](f, x).sum()))

    x = jnp.arange(4.0)
    new = hlo_remat.apply(gradient(mark).lower(x), strategy=strategy)
    close(new.compile()(x), gradient(lambda f: f)(x))


def test_loops_stay_small_kernels_without_barriers(lowered, monkeypatch):
    monkeypatch.setattr("jaxlib.version.__version__", "0.10.2")
    scanned = jax.jit(jax.grad(lambda x: IN_LOOPS["scan"](jax.checkpoint(jnp.sin), x).sum()))
    both = {"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}
    assert hlo_remat.apply(scanned.lower(jnp.ones(3))).hlo_remat_options == both
    assert hlo_remat.apply(lowered, strategy="optimization-barrier").hlo_remat_options == OURS
    assert hlo_remat.apply(lowered).hlo_remat_options == {}


def test_an_unknown_option_is_still_refused(lowered):
    with pytest.raises(Exception, match="xla_no_such_option"):
        hlo_remat.apply(lowered).compile({"xla_no_such_option": "1"})


# -- errors and remarks ------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 3, step, [1]])
def test_wrong_kind(wrong):
    with pytest.raises(TypeError, match=r"expected what jax.jit\(f\).lower"):
        hlo_remat.apply(wrong)


@pytest.mark.parametrize("x", ["nonsense", b"ML\xefRnonsense", b"nonsense"])
def test_what_is_no_module(x):
    with pytest.raises(hlo_remat.DiagnosticError, match="error: "):
        hlo_remat.apply(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "cse"}, "strategy='cse' is not one of 'auto', 'optimization-barrier'"),
        ({"scope": "all"}, "scope='all' is not one of"),
        ({"strategy": "call", "pipeline": UNFENCED}, "belong to the default pipeline"),
        ({"target": "gpu", "pipeline": UNFENCED}, "belong to the default pipeline"),
        ({"scope": "backward", "pipeline": UNFENCED}, "belong to the default pipeline"),
    ],
)
def test_options_that_do_not_go(lowered, options, message):
    with pytest.raises(ValueError, match=message):
        hlo_remat.apply(lowered, **options)


def test_pipelines(lowered, expected):
    new = hlo_remat.apply(lowered, pipeline=UNFENCED)
    assert not has_markers(new.as_text())
    assert "optimization_barrier" not in new.as_text()
    close(new.compile()(WS, X), expected)
    partitioned = hlo_remat.apply(
        lowered, pipeline="builtin.module(hlo-remat-inline,hlo-remat-partition)"
    )
    assert '"recompute"' in partitioned.as_text()
    # What is left to do can be done later.
    close(hlo_remat.apply(partitioned).compile()(WS, X), expected)
    with pytest.raises(hlo_remat.PipelineError, match="does not refer to a registered pass"):
        hlo_remat.apply(lowered, pipeline="builtin.module(hlo-remat-partitoin)")


def rng_gradient():
    def f(x):
        noise = jax.lax.rng_uniform(0.0, jax.lax.stop_gradient(x).max(), (64, 64))
        return jnp.sin(noise * jnp.sin(x))

    return jax.jit(jax.grad(lambda x: hlo_remat.checkpoint(f)(x).sum())).lower(X)


def test_remarks_are_logged_and_printed(capsys, caplog):
    lowered = rng_gradient()
    caplog.set_level(logging.INFO, "hlo_remat")
    new = hlo_remat.apply(lowered)
    said = "'stablehlo.rng' in region 'f' can't be computed twice, so its result is saved"
    assert said in caplog.text
    assert capsys.readouterr().err == ""
    assert new.as_text().count("stablehlo.rng") == 1
    hlo_remat.apply(lowered, remarks=True)
    printed = capsys.readouterr().err
    assert f"remark: {said}" in printed
    assert "test_apply_options.py" in printed


def test_errors_of_passes_leave_the_given_one():
    policy = hlo_remat.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    f = hlo_remat.checkpoint(lambda w, x: jnp.sin(x @ w), policy=policy)
    lowered = jax.jit(jax.grad(lambda w, x: f(w, x).sum())).lower(X, X)
    before = lowered.as_text()
    with pytest.raises(hlo_remat.DiagnosticError, match="offload"):
        hlo_remat.apply(lowered)
    assert lowered.as_text() == before
    assert np.all(np.isfinite(lowered.compile()(X, X)))
