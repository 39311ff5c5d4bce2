# SPDX-License-Identifier: Apache-2.0
"""How large values are."""

from __future__ import annotations

import math

from jaxlib.mlir import ir


def size_in_bytes(type_: ir.Type) -> int:
    """Of a tensor of static shape, 0 for any other type. An element of no width in bits counts as
    one byte, one of less than a byte too."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return 0
    element, parts = type_.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    return math.prod(type_.shape) * parts * max(1, getattr(element, "width", 8) // 8)
