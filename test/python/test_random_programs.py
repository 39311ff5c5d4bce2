# SPDX-License-Identifier: Apache-2.0
"""Random programs: as many as CI has time for. `python -m hlo_remat.testing.fuzz` has more."""

from __future__ import annotations

import hypothesis
import jax
import pytest

import hlo_remat
from hlo_remat import module_io
from hlo_remat.testing.programs import SIMPLE, Program, programs
from hlo_remat.testing.properties import Broken, check, check_close, check_passes


@pytest.mark.parametrize("x64", [False, True])
def test_random_programs(x64):
    @hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
    @hypothesis.given(programs(x64=x64))
    def run(program):
        check(program)

    with jax.enable_x64(x64):
        run()


@pytest.mark.parametrize("step", SIMPLE)
def test_each_step_in_a_region_of_a_scan(step):
    body = (("region", "none", True, True, ("sine", step, "sine")),)
    program = Program((3, 2), "float32", "gradient", (("scan", 3, True, 1, body),))
    lowered = jax.jit(program.function(hlo_remat.checkpoint)).lower(*program.arguments())
    check_passes(module_io.parse(module_io.bytecode(lowered.compiler_ir("stablehlo"))))


def test_a_difference_is_seen():
    program = Program((3, 2), "float32", "gradient", ("sine",))
    with pytest.raises(Broken, match="differs by"):
        check_close([1.0, 2.0], [1.0, 2.1], program)


PROGRAM = """
import hashlib, jax, hypothesis, hlo_remat
from hlo_remat.testing.programs import programs
texts = []
@hypothesis.settings(max_examples=8, deadline=None, derandomize=True, database=None)
@hypothesis.given(programs())
def run(program):
    lowered = jax.jit(program.function(hlo_remat.checkpoint)).lower(*program.arguments())
    texts.append(repr(program) + str(hlo_remat.apply(lowered).compiler_ir("stablehlo")))
run()
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


def test_the_module_is_the_same_in_another_process(run_python):
    assert run_python(PROGRAM, PYTHONHASHSEED="1") == run_python(PROGRAM, PYTHONHASHSEED="2")
