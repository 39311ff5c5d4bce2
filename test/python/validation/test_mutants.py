# SPDX-License-Identifier: Apache-2.0
"""The proof refuses wrong rewrites. `mutants.py` beside this file makes all of them."""

from __future__ import annotations

from mutants import corpus, try_mutants


def test_no_mutant_that_computes_something_else_is_proven():
    tallies = try_mutants(corpus(3), per_pair=4)
    assert not [hole for tally in tallies.values() for hole in tally.holes]
    assert sum(tally.refused for tally in tallies.values()) > 200
    assert sum(tally.refused > 0 for tally in tallies.values()) >= 20
