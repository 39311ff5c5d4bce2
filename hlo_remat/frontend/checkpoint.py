# SPDX-License-Identifier: Apache-2.0
"""`checkpoint` and `checkpoint_name`: mark what the passes work on."""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from hlo_remat import _compat
from hlo_remat.errors import UnknownNameError
from hlo_remat.frontend.names import names_in, with_our_names
from hlo_remat.frontend.policies import as_policy
from hlo_remat.frontend.primitives import marker_p, name_p
from hlo_remat.frontend.static import (
    make_static,
    parameter_names,
    read_options,
    static_positions,
    unpack_static,
    with_static,
)
from hlo_remat.ir.markers import Kind, Region
from hlo_remat.policies import Policy

_compat.hide_frames(os.path.dirname(__file__) + os.sep)


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: Any = True,
    policy: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """Marks `fun` as a region whose residuals hlo_remat decides on when it is differentiated.

    The interface of `jax.checkpoint`; also a decorator, with or without options. By itself it
    changes nothing: the function computes the same and, until `hlo_remat.apply` or
    `hlo-remat-opt` has rewritten the lowered module, every residual is stored.

    Names are given by `hlo_remat.checkpoint_name` or by `jax.ad_checkpoint.checkpoint_name`.

    Args:
      fun: the function to mark. Arguments and results are pytrees of arrays.
      prevent_cse: whether each recompute is fenced so that XLA neither merges it with the forward
        nor runs it early. False for regions in the body of a scan, which XLA can't merge. Also
        a pytree prefix of bools over the arguments without the static ones: which of the saved
        inputs pass the fence. Closed-over values don't.
      policy: one of `hlo_remat.checkpoint_policies` or `jax.checkpoint_policies`, or a callable
        `policy(prim, *avals, **params)`; None saves nothing but the inputs.
      static_argnums: positions of arguments that are Python values for `fun`, not arrays;
        negative ones count from the end. They may be unhashable; equal ones cause no new trace
        (lists, dicts and sets by their contents, other unhashable values by their pickle).
      static_argnames: names of such arguments.

    Returns:
      A function with the signature of `fun`.

    Raises:
      TypeError: for a policy, static_argnums, static_argnames or prevent_cse of another type.
      ValueError: for a name in static_argnames that `fun` doesn't have and, when called, for a
        static_argnums out of range or a prevent_cse that is no prefix of the arguments.
      UnknownNameError: when called, where the policy speaks of a name that no `checkpoint_name`
        in `fun` gives.
    """
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    if not callable(fun):
        raise TypeError(f"hlo_remat.checkpoint marks a function, got {fun!r}")
    policy = as_policy(policy)
    _check_prevent_cse(prevent_cse)
    argnums, argnames = read_options(static_argnums, static_argnames)
    parameters = parameter_names(fun, argnames) if argnames else []
    label, traceable = _label(fun), _traceable(fun)

    @functools.wraps(fun)
    def marked(*args: Any, **kwargs: Any) -> Any:
        positions = static_positions(len(args), argnums, argnames, parameters)
        static: dict[int | str, Any] = {i: args[i] for i in sorted(positions)}
        static |= {k: kwargs[k] for k in sorted(kwargs.keys() & set(argnames))}
        dyn_args = tuple(a for i, a in enumerate(args) if i not in static)
        dyn_kwargs = {k: v for k, v in kwargs.items() if k not in static}
        closed, out_shape = _trace(traceable, static, dyn_args, dyn_kwargs)
        fence = _fence(prevent_cse, len(closed.consts), dyn_args, dyn_kwargs)
        names = _check_names(fun, policy, closed)
        flat_args = jax.tree.leaves((dyn_args, dyn_kwargs))
        outs = _bind_region(closed, flat_args, Region(label, policy, fence, names))
        return jax.tree.unflatten(jax.tree.structure(out_shape), outs)

    return marked


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """Gives every array in the pytree `x` a name that policies can speak of; returns `x`.

    A name is an alias: saving it makes `x` itself available to the backward.

    Raises TypeError where `name` is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a string as its name, got {name!r}")
    return jax.tree.map(lambda leaf: name_p.bind(leaf, name=name), x)


# -- tracing and binding -----------------------------------------------------------------------


def _traceable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, or a stand-in where JAX could not cache its traces: they go by hash and weakly."""
    try:
        hash(fun)
        weakref.ref(fun)
    except TypeError:
        return functools.partial(fun)
    return fun


def _label(fun: Any) -> str:
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", type(fun).__name__)


def _trace(
    fun: Callable[..., Any], static: dict[int | str, Any], args: Any, kwargs: Any
) -> tuple[Any, Any]:
    try:
        if not static:
            closed, out_shape = jax.make_jaxpr(fun, return_shape=True)(*args, **kwargs)
        else:
            key, reusable = make_static(static)
            call = with_static(fun) if reusable else unpack_static(lambda: fun)
            make = jax.make_jaxpr(call, static_argnums=0, return_shape=True)
            closed, out_shape = make(key, *args, **kwargs)
    except jax.errors.ConcretizationTypeError as error:
        hint = (
            "\n\nThe function is traced by hlo_remat.checkpoint. If the value is known when it is "
            "called, pass it as a static argument: hlo_remat.checkpoint(fun, static_argnums=...) "
            "or static_argnames=..."
        )
        message = str(error.args[0])
        # Of a function that is called inside, the arguments of this one say nothing; and an inner
        # region has given the hint already.
        if _compat.in_messages(fun) in message and hint not in message:
            error.args = (f"{message}{hint}", *error.args[1:])
        raise
    return with_our_names(closed), out_shape


def _bind_region(closed: Any, flat_args: Sequence[Any], region: Region) -> list[Any]:
    inside = [*closed.consts, *flat_args]
    # References to mutable arrays are no values: they go past the markers.
    places = [i for i, x in enumerate(inside) if isinstance(jax.typeof(x), jax.core.ShapedArray)]
    inputs = [inside[i] for i in places]
    if isinstance(region.prevent_cse, tuple):
        fence = tuple(region.prevent_cse[i] for i in places)
        region = Region(region.label, region.policy, fence, region.names)
    params = {"num_inputs": len(inputs), "region": region}
    if inputs:
        entered = marker_p.bind(*inputs, kind=Kind.ENTER, **params)
        for i, value in zip(places, entered, strict=True):
            inside[i] = value
    num_consts = len(closed.consts)
    outs = jax.core.eval_jaxpr(closed.jaxpr, inside[:num_consts], *inside[num_consts:])
    return marker_p.bind(*outs, *inputs, kind=Kind.EXIT, **params) if inputs and outs else outs


# -- prevent_cse and names ---------------------------------------------------------------------


def _check_prevent_cse(prevent_cse: Any) -> None:
    leaves = jax.tree.leaves(prevent_cse)
    if not leaves or not all(isinstance(leaf, bool) for leaf in leaves):
        raise TypeError(
            "prevent_cse must be a bool or a pytree prefix of bools over the arguments, "
            f"got {prevent_cse!r}"
        )


def _fence(prevent_cse: Any, num_consts: int, args: Any, kwargs: Any) -> bool | tuple[bool, ...]:
    if isinstance(prevent_cse, bool):
        return prevent_cse
    full = (tuple(args), kwargs) if kwargs else tuple(args)
    # Sequences of one bool for each argument, as in JAX.
    prefix = tuple(prevent_cse) if isinstance(prevent_cse, list) else prevent_cse
    try:
        mask = jax.tree.broadcast(prefix, full)
    except ValueError as error:
        raise ValueError(
            f"prevent_cse={prevent_cse!r} is not a pytree prefix of the arguments: {error}"
        ) from None
    return (False,) * num_consts + tuple(jax.tree.leaves(mask))


def _check_names(fun: Callable[..., Any], policy: Policy, closed: Any) -> tuple[str, ...]:
    """The names that matter in the traced function, if the policy speaks of any."""
    if not policy.names:
        return ()
    there = names_in(closed, policy.names)
    missing = sorted(policy.names - there)
    if missing:
        code = getattr(inspect.unwrap(fun), "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        raise UnknownNameError(
            f"policy {policy} of region '{_label(fun)}'{place} speaks of {missing}, but no "
            "checkpoint_name in the region gives these names to a value that its outputs depend "
            f"on; the names there are: {sorted(there) or 'none'}"
        )
    return tuple(sorted(there))
