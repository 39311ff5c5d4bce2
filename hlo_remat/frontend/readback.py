# SPDX-License-Identifier: Apache-2.0
"""From a StableHLO op back to the JAX primitive that it came from, for users' own policies."""

from __future__ import annotations

import re
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
    "all_reduce": "psum",
    "case": "cond",
    "convert": "convert_element_type",
    "cosine": "cos",
    "count_leading_zeros": "clz",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "popcnt": "population_count",
    "power": "pow",
    "remainder": "rem",
    "reverse": "rev",
    "round_nearest_even": "round",
    "select": "select_n",
    "sine": "sin",
    "subtract": "sub",
}
# The reductions by the op that their body applies.
_REDUCTIONS = {
    "stablehlo.add": "reduce_sum",
    "stablehlo.and": "reduce_and",
    "stablehlo.maximum": "reduce_max",
    "stablehlo.minimum": "reduce_min",
    "stablehlo.multiply": "reduce_prod",
    "stablehlo.or": "reduce_or",
}

Read = tuple[Primitive, list[jax.ShapeDtypeStruct], dict[str, Any]]


def _element_dtype(element: ir.Type) -> np.dtype:
    """The dtype of `bf16`, `ui8`, `i1`, `f8E4M3FN`, `complex<f32>`."""
    if isinstance(element, ir.ComplexType):
        return np.dtype(f"complex{2 * _element_dtype(element.element_type).itemsize * 8}")
    kind, bits, rest = re.match(r"([a-z]+)(\d+)(\w*)", str(element)).groups()  # type: ignore[union-attr]
    if kind == "i" and bits == "1":
        return np.dtype(bool)
    name = {"f": "float", "bf": "bfloat", "i": "int", "ui": "uint"}[kind] + bits
    return jax.numpy.dtype(f"{name}_{rest.lower()}" if rest else name)


def aval(type_: ir.Type) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a tensor type."""
    tensor = ir.RankedTensorType(type_)
    return jax.ShapeDtypeStruct(tuple(tensor.shape), _element_dtype(tensor.element_type))


def _dot_general(op: ir.Operation) -> dict[str, Any]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contract = tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)
    batch = tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)
    return _dot_params(op, contract, batch)


def _dot(op: ir.Operation) -> dict[str, Any]:
    rank = len(ir.RankedTensorType(op.operands[0].type).shape)
    return _dot_params(op, ((rank - 1,), (0,)), ((), ()))


def _dot_params(op: ir.Operation, contract: Any, batch: Any) -> dict[str, Any]:
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


def _convert(op: ir.Operation) -> dict[str, Any]:
    return {"new_dtype": aval(op.results[0].type).dtype, "weak_type": False, "sharding": None}


def _axes(op: ir.Operation) -> dict[str, Any]:
    return {"axes": tuple(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))}


# The parameters are those that a policy may look at, not all that the primitive has.
_READERS: dict[str, tuple[str, Callable[[ir.Operation], dict[str, Any]]]] = {
    "stablehlo.dot_general": ("dot_general", _dot_general),
    "stablehlo.dot": ("dot_general", _dot),
    "stablehlo.convolution": ("conv_general_dilated", _convolution),
    "stablehlo.convert": ("convert_element_type", _convert),
}
_stand_ins: dict[str, Primitive] = {}


def _reader(op: ir.Operation) -> tuple[str, Callable[[ir.Operation], dict[str, Any]]]:
    if op.name in _READERS:
        return _READERS[op.name]
    if op.name == "stablehlo.compare":
        direction = str(op.attributes["comparison_direction"])
        return re.findall("[A-Z]+", direction)[0].lower(), lambda _: {}
    if op.name == "stablehlo.reduce":
        inside = [view.operation.name for view in op.regions[0].blocks[0].operations]
        if len(inside) == 2 and inside[0] in _REDUCTIONS:
            return _REDUCTIONS[inside[0]], _axes
    return op.name.rsplit(".", 1)[-1], lambda _: {}


def primitive_named(name: str) -> Primitive:
    """JAX's primitive for an op, or a stand-in with the op's name where JAX has none."""
    for candidate in (_RENAMED.get(name, name), name):
        for place in (lax, primitives):
            primitive = getattr(place, f"{candidate}_p", None)
            if isinstance(primitive, Primitive):
                return primitive
    return _stand_ins.setdefault(name, Primitive(name))


def read(op: ir.Operation | None, names: Set[str]) -> Iterator[Read]:
    """The applications that made a value: its op, and one `name` for each of its names."""
    if op is not None:
        name, params = _reader(op)
        tensors = [o.type for o in op.operands if isinstance(o.type, ir.RankedTensorType)]
        yield primitive_named(name), [aval(t) for t in tensors], params(op)
    for name in sorted(names):
        yield primitives.name_p, [], {"name": name}
