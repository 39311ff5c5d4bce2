# SPDX-License-Identifier: Apache-2.0
"""Real models: the same step as in plain JAX, in less memory, with the recompute in it."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training import TRAININGS

import hlo_remat
from hlo_remat import module_io
from hlo_remat.frontend.lowered import with_module


@functools.cache
def training(make):
    return make()


@functools.cache
def plain(make):
    return jax.jit(training(make).step(lambda f: f)).lower(*training(make).arguments).compile()


def by_lowered(lowered):
    return hlo_remat.apply(lowered).compile()


def by_text(lowered):
    """As from a build script: no compiler options come with the text."""
    module = module_io.parse(hlo_remat.apply(lowered.as_text()))
    return with_module(lowered, module, {}).compile()


def temp_bytes(compiled):
    return compiled.memory_analysis().temp_size_in_bytes


def dots(compiled):
    """Dots and convolutions, those that a library does for XLA included."""
    text = compiled.as_text()
    return len(re.findall(r"= \S+ (?:dot|convolution)\(", text)) + text.count(
        'custom_call_target="__onednn'
    )


def check_equal(actual, expected):
    def check(path, a, b):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        is_half = a.dtype == jnp.bfloat16
        np.testing.assert_allclose(
            np.asarray(a, np.float64),
            np.asarray(b, np.float64),
            rtol=2e-2 if is_half else 1e-4,
            atol=(2e-2 if is_half else 1e-5) * float(np.max(np.abs(np.asarray(b, np.float64)))),
            err_msg=jax.tree_util.keystr(path),
        )

    jax.tree_util.tree_map_with_path(check, actual, expected)


@pytest.mark.parametrize("way", [by_lowered, by_text])
@pytest.mark.parametrize("make", TRAININGS, ids=lambda m: m.__name__)
def test_training(make, way):
    step, arguments = training(make).step, training(make).arguments
    compiled = way(jax.jit(step(hlo_remat.checkpoint)).lower(*arguments))
    check_equal(compiled(*arguments), plain(make)(*arguments))
    assert temp_bytes(compiled) < 0.8 * temp_bytes(plain(make))
    assert dots(compiled) > dots(plain(make))
