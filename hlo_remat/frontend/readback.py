# SPDX-License-Identifier: Apache-2.0
"""From a StableHLO op back to the JAX primitive that it came from, for users' own policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive, primitives
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

# StableHLO ops whose JAX primitive has another name.
_RENAMED = {
    "abs": "abs",
    "add": "add",
    "broadcast_in_dim": "broadcast_in_dim",
    "convert": "convert_element_type",
    "cosine": "cos",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "power": "pow",
    "remainder": "rem",
    "select": "select_n",
    "sine": "sin",
    "subtract": "sub",
    "transpose": "transpose",
}

Read = tuple[Primitive, list[jax.ShapeDtypeStruct], dict[str, Any]]


def _element_dtype(element: ir.Type) -> np.dtype:
    text = str(element)
    if isinstance(element, ir.ComplexType):
        return np.dtype("complex64" if text == "complex<f32>" else "complex128")
    if text == "i1":
        return np.dtype(bool)
    for prefix, name in (("ui", "uint"), ("i", "int"), ("bf", "bfloat"), ("f", "float")):
        if text.startswith(prefix) and text[len(prefix) :].isdigit():
            return jax.numpy.dtype(name + text[len(prefix) :])
    return jax.numpy.dtype("float" + text.removeprefix("f").lower())


def aval(type_: ir.Type) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a tensor type."""
    tensor = ir.RankedTensorType(type_)
    return jax.ShapeDtypeStruct(tuple(tensor.shape), _element_dtype(tensor.element_type))


def _dot_general(op: ir.Operation) -> dict[str, Any]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contract = tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)
    batch = tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)
    return {
        "dimension_numbers": (contract, batch),
        "precision": None,
        "preferred_element_type": aval(op.results[0].type).dtype,
        "out_sharding": None,
    }


def _convolution(op: ir.Operation) -> dict[str, Any]:
    groups = {
        name: ir.IntegerAttr(op.attributes[name]).value
        for name in ("feature_group_count", "batch_group_count")
    }
    return {**groups, "preferred_element_type": aval(op.results[0].type).dtype}


_PARAMS: dict[str, tuple[Primitive, Callable[[ir.Operation], dict[str, Any]]]] = {
    "stablehlo.dot_general": (lax.dot_general_p, _dot_general),
    "stablehlo.convolution": (lax.conv_general_dilated_p, _convolution),
}
_stand_ins: dict[str, Primitive] = {}


def primitive_named(op_name: str) -> Primitive:
    """JAX's primitive for an op, or a stand-in with the op's name where JAX has none."""
    short = op_name.rsplit(".", 1)[-1]
    for name in (_RENAMED.get(short, short), short):
        primitive = getattr(lax, f"{name}_p", None) or getattr(primitives, f"{name}_p", None)
        if isinstance(primitive, Primitive):
            return primitive
    return _stand_ins.setdefault(short, Primitive(short))


def read(op: ir.Operation | None, names: Set[str]) -> Iterator[Read]:
    """The applications that made a value: its op, and one `name` for each of its names."""
    if op is not None:
        primitive, params = _PARAMS.get(op.name) or (primitive_named(op.name), lambda op: {})
        tensors = [o.type for o in op.operands if isinstance(o.type, ir.RankedTensorType)]
        yield primitive, [aval(t) for t in tensors], params(op)
    for name in sorted(names):
        yield primitives.name_p, [], {"name": name}
