# SPDX-License-Identifier: Apache-2.0
"""The work of one op: FLOPs by StableHLO's specification, a multiplication and an addition each
one."""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

# What a CPU or a GPU computes with some ten instructions.
_TRANSCENDENTAL = frozenset(
    f"stablehlo.{name}"
    for name in (
        "atan2",
        "cbrt",
        "cosine",
        "divide",
        "erf",
        "exponential",
        "exponential_minus_one",
        "log",
        "log_plus_one",
        "logistic",
        "power",
        "remainder",
        "rng_bit_generator",
        "rsqrt",
        "sine",
        "sqrt",
        "tan",
        "tanh",
    )
) | frozenset({"chlo.erf", "chlo.erf_inv", "chlo.lgamma", "chlo.digamma", "chlo.tan", "chlo.sinh"})
_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert",
        "broadcast_in_dim",
        "concatenate",
        "constant",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "get_tuple_element",
        "iota",
        "optimization_barrier",
        "pad",
        "reshape",
        "return",
        "reverse",
        "slice",
        "transpose",
        "tuple",
    )
)
PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})


def flops(op: ir.Operation, name: str) -> float:
    """FLOPs of one run of an op without its regions; a transcendental function counts as ten."""
    if name in _MOVES or not len(op.results):
        return 0.0
    elements = _elements(op.results[0].type)
    if name in ("stablehlo.dot_general", "stablehlo.dot"):
        return 2.0 * elements * _contracted(op, name)
    if name == "stablehlo.convolution":
        kernel = ir.RankedTensorType(op.operands[1].type)
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        outputs = kernel.shape[numbers.kernel_output_feature_dimension]
        return 2.0 * elements * _elements(kernel) / max(outputs, 1)
    if name in ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.sort"):
        return float(_elements(op.operands[0].type))
    return elements * (10.0 if name in _TRANSCENDENTAL else 1.0)


def is_transcendental(name: str) -> bool:
    """Whether ops of that name take some ten instructions an element."""
    return name in _TRANSCENDENTAL


def is_half(op: ir.Operation) -> bool:
    """Whether an op computes in 16 bits or fewer."""
    type_ = op.operands[0].type if len(op.operands) else None
    if not isinstance(type_, ir.RankedTensorType):
        return False
    return getattr(type_.element_type, "width", 32) <= 16


def _elements(type_: ir.Type) -> int:
    is_static = isinstance(type_, ir.RankedTensorType) and type_.has_static_shape
    return math.prod(ir.RankedTensorType(type_).shape) if is_static else 1


def _contracted(op: ir.Operation, name: str) -> int:
    shape = ir.RankedTensorType(op.operands[0].type).shape
    if name == "stablehlo.dot":
        return shape[-1] if shape else 1
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return math.prod(shape[d] for d in numbers.lhs_contracting_dimensions)
