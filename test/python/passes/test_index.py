# SPDX-License-Identifier: Apache-2.0
"""Where ops lie in the blocks of a function."""

from __future__ import annotations

import pytest

from hlo_remat import module_io
from hlo_remat.ir.index import Index

TEXT = """
func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %a = "stablehlo.if"(%p) ({
    %s = stablehlo.sine %x : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %a : tensor<f32>
}
"""


@pytest.mark.parametrize(
    ("op", "at", "expected"),
    [
        ("stablehlo.sine", "stablehlo.sine", "stablehlo.sine"),
        ("stablehlo.sine", "func.return", "stablehlo.if"),
        ("func.return", "stablehlo.sine", None),
    ],
)
def test_an_op_lies_in_its_block_and_those_around(op, at, expected):
    module = module_io.parse(TEXT)
    index = Index(module.body.operations[0].operation)
    found = index.in_block(index.names.index(op), index.block[index.names.index(at)])
    assert (index.names[found] if found >= 0 else None) == expected
