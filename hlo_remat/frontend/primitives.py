# SPDX-License-Identifier: Apache-2.0
"""The identity primitives behind `checkpoint`, with their rules.

`marker_p` passes its values through and carries the region's raw inputs beside them, so that
JAX's own partial evaluation brings these to the backward. Its tangents go through `tangent_p`,
which is linear in them and whose transpose is the marker of the backward. No rule does more than
an identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from hlo_remat import _compat
from hlo_remat.ir.markers import Kind, Region, build_marker

# The marker that the transpose of a marker's tangent leaves. A backward is a region too: its
# bwd_enter and bwd_exit stand where enter and exit do when it is differentiated again.
TRANSPOSED = {
    Kind.ENTER: Kind.BWD_EXIT,
    Kind.EXIT: Kind.BWD_ENTER,
    Kind.BWD_ENTER: Kind.BWD_EXIT,
    Kind.BWD_EXIT: Kind.BWD_ENTER,
}

marker_p = Primitive("hlo_remat_marker")  # *values, *inputs -> values (enter: *inputs -> inputs)
tangent_p = Primitive("hlo_remat_tangent")  # *tangents, *inputs -> tangents
name_p = Primitive("hlo_remat_name")  # x -> x
marker_p.multiple_results = True
tangent_p.multiple_results = True


def _num_values(args: Sequence[Any], kind: Kind, num_inputs: int) -> int:
    return len(args) if kind is Kind.ENTER else len(args) - num_inputs


def _passed(*args: Any, kind: Kind, num_inputs: int, **_: Any) -> list[Any]:
    return list(args[: _num_values(args, kind, num_inputs)])


def _passed_tangents(*args: Any, num_inputs: int, **_: Any) -> list[Any]:
    return list(args[: len(args) - num_inputs])


marker_p.def_impl(_passed)
marker_p.def_abstract_eval(_passed)
tangent_p.def_impl(_passed_tangents)
tangent_p.def_abstract_eval(_passed_tangents)
name_p.def_impl(lambda x, *, name: x)
name_p.def_abstract_eval(lambda x, *, name: x)


def _marker_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    kind, num_inputs = params["kind"], params["num_inputs"]
    primals_out = marker_p.bind(*primals, **params)
    inputs = primals[len(primals) - num_inputs :]
    tangents_out = list(tangents[: _num_values(tangents, kind, num_inputs)])
    live = [i for i, t in enumerate(tangents_out) if not isinstance(t, ad.Zero)]
    if live:
        passed = tangent_p.bind(*(tangents_out[i] for i in live), *inputs, **params)
        for i, t in zip(live, passed, strict=True):
            tangents_out[i] = t
    return primals_out, tangents_out


def _tangent_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    num_inputs = params["num_inputs"]
    inputs = primals[len(primals) - num_inputs :]
    out_tangents = list(tangents[: len(tangents) - num_inputs])
    live = [i for i, t in enumerate(out_tangents) if not isinstance(t, ad.Zero)]
    if live:
        passed = tangent_p.bind(*(out_tangents[i] for i in live), *inputs, **params)
        for i, t in zip(live, passed, strict=True):
            out_tangents[i] = t
    return tangent_p.bind(*primals, **params), out_tangents


def _tangent_transpose(
    cotangents: Any, *args: Any, kind: Kind, num_inputs: int, region: Region
) -> list[Any]:
    inputs = args[len(args) - num_inputs :]
    # A tangent that is known is no linear argument: it gets no cotangent.
    linear = [ad.is_undefined_primal(a) for a in args[: len(args) - num_inputs]]
    result = [ct if used else None for ct, used in zip(cotangents, linear, strict=True)]
    live = [i for i, ct in enumerate(result) if ct is not None and not isinstance(ct, ad.Zero)]
    if live:
        passed = marker_p.bind(
            *(cotangents[i] for i in live),
            *inputs,
            kind=TRANSPOSED[kind],
            num_inputs=num_inputs,
            region=region,
        )
        for i, ct in zip(live, passed, strict=True):
            result[i] = ct
    return [*result, *(None for _ in inputs)]


def _marker_transpose(cotangents: Any, *args: Any, **_: Any) -> list[Any]:
    # Of a linear function itself (jax.linear_transpose): its inputs are unknown, so no marker.
    return [*cotangents, *(None for _ in args[len(cotangents) :])]


ad.primitive_jvps[marker_p] = _marker_jvp
ad.primitive_transposes[marker_p] = _marker_transpose
ad.primitive_transposes[name_p] = lambda ct, x, *, name: [ct]
ad.primitive_jvps[tangent_p] = _tangent_jvp
ad.primitive_transposes[tangent_p] = _tangent_transpose
ad.primitive_jvps[name_p] = lambda xs, ts, *, name: (name_p.bind(*xs, name=name), ts[0])


def _batch_marker(args: Any, dims: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return marker_p.bind(*args, **params), _passed(*dims, **params)


def _batch_tangent(args: Any, dims: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return tangent_p.bind(*args, **params), _passed_tangents(*dims, **params)


batching.primitive_batchers[marker_p] = _batch_marker
batching.primitive_batchers[tangent_p] = _batch_tangent
batching.primitive_batchers[name_p] = lambda xs, ds, *, name: (name_p.bind(*xs, name=name), ds[0])


def _dce(used_outputs: list[bool], *rest: Any) -> tuple[list[bool], Any]:
    """Drops the values that nobody reads; the raw inputs stay, they tell regions apart."""
    eqn = rest[-1]  # JAX passes (used_outputs, eqn), from 0.12 on (used_outputs, live_inputs, eqn)
    if not any(used_outputs):
        return [False] * len(eqn.invars), None
    if eqn.params["kind"] is Kind.ENTER and eqn.primitive is marker_p:
        return [True] * len(eqn.invars), eqn
    used_inputs = [*used_outputs, *[True] * eqn.params["num_inputs"]]
    return used_inputs, eqn.replace(
        invars=[v for v, used in zip(eqn.invars, used_inputs, strict=True) if used],
        outvars=[v for v, used in zip(eqn.outvars, used_outputs, strict=True) if used],
    )


def _partial_eval(trace: Any, *tracers: Any, **params: Any) -> Any:
    """As by default, but of an enter in part known the known inputs stay known.

    That is how JAX hoists from a loop what depends on its constants alone. Else each constant
    that the backward reads, the weights of an RNN say, would be stacked once for every step.
    """
    outs = trace.default_process_primitive(marker_p, tracers, params)
    known = [t.is_known() for t in tracers]
    if params["kind"] is not Kind.ENTER or all(known):
        return outs
    return [t if k else out for t, k, out in zip(tracers, known, outs, strict=True)]


partial_eval.custom_partial_eval_rules[marker_p] = _partial_eval
partial_eval.dce_rules[marker_p] = _dce
partial_eval.dce_rules[tangent_p] = _dce

for _primitive in (marker_p, tangent_p, name_p):
    _compat.pass_keys(_primitive, lambda eqn: len(eqn.outvars))


def _has_static_shape(value: Any) -> bool:
    # With others XLA's shape refinement fails: a composite's decomposition has shapes of its own.
    return mlir.ir.RankedTensorType(value.type).has_static_shape


def _lower_marker(
    ctx: mlir.LoweringRuleContext, *args: Any, kind: Kind, num_inputs: int, region: Region
) -> Any:
    values, inputs = args[: len(args) - num_inputs], args[len(args) - num_inputs :]
    if not all(map(_has_static_shape, args)):
        if kind is Kind.ENTER:
            warnings.warn(
                f"region '{region.label}' has symbolic shapes: hlo_remat leaves it as it is and "
                "all its residuals are stored",
                stacklevel=2,
            )
        return _passed(*args, kind=kind, num_inputs=num_inputs)
    attributes = region.to_attributes(_compat.lowering_context(ctx))
    symbols, module = _compat.lowering_module(ctx)
    return build_marker(kind, symbols, module, values, inputs, attributes=attributes).results


def _lower_name(ctx: mlir.LoweringRuleContext, x: Any, *, name: str) -> Any:
    if not _has_static_shape(x):
        return [x]
    symbols, module = _compat.lowering_module(ctx)
    attributes: dict[str, mlir.ir.Attribute] = {"name": mlir.ir.StringAttr.get(name)}
    return build_marker(Kind.NAME, symbols, module, [x], attributes=attributes).results


mlir.register_lowering(marker_p, _lower_marker)
mlir.register_lowering(tangent_p, lambda ctx, *args, **params: _passed_tangents(*args, **params))
mlir.register_lowering(name_p, _lower_name)
