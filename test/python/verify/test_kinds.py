# SPDX-License-Identifier: Apache-2.0
"""`verify` refuses a fixed sample of the mutants. harness.py makes many more."""

from __future__ import annotations

import collections
import random

import pytest
from corpus import jax_pairs, lit_pairs, own_pairs
from harness import mutants
from kinds import KINDS


def check(found, unproven):
    """No mutant is proven that computes something else; every pair is. How many of each kind are
    refused."""
    assert not unproven
    wrong = [f"{m}\n{m.text}" for m in found if m.verdict in ("hole", "error")]
    assert not wrong, "\n\n".join(wrong)
    return collections.Counter(m.kind for m in found if m.verdict == "rejected")


@pytest.fixture(scope="module")
def corpus():
    return [*lit_pairs(), *jax_pairs()]


def test_no_mutant_of_a_sample_is_proven_that_computes_something_else(corpus):
    unproven = []
    sample = random.Random(0).sample(corpus, 12)
    assert len(check(list(mutants(sample, 1, 0, unproven)), unproven)) >= 40


def test_no_mutant_of_unusual_modules_is_proven_that_computes_something_else():
    unproven = []
    refused = check(list(mutants(own_pairs(), 20, 0, unproven)), unproven)
    assert {kind for kind in KINDS if "effect" in kind} <= set(refused)
