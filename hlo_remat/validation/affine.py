# SPDX-License-Identifier: Apache-2.0
"""Integers as affine functions of the variable of a loop."""

from __future__ import annotations

from typing import NamedTuple

from jaxlib.mlir import ir


class Index(NamedTuple):
    """`scale * variable + offset`; of no variable (-1) where it is a constant."""

    scale: int
    offset: int
    variable: int = -1


def limits(element: ir.IntegerType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    is_signed = not element.is_unsigned and element.width > 1
    low = -(1 << element.width - 1) if is_signed else 0
    return low, low + (1 << element.width) - 1
