# SPDX-License-Identifier: Apache-2.0
"""`checkpoint` and `checkpoint_name`: mark what the passes work on."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from hlo_remat import _compat
from hlo_remat.errors import UnknownNameError
from hlo_remat.frontend.policies import as_policy
from hlo_remat.frontend.primitives import marker_p, name_p
from hlo_remat.ir.markers import Kind, Region
from hlo_remat.policies import Policy


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

    Args:
      fun: the function to mark. Arguments and results are pytrees of arrays.
      prevent_cse: whether each recompute is fenced so that XLA neither merges it with the forward
        nor runs it early. False for regions in the body of a scan, which XLA can't merge. Also
        a pytree prefix of bools over the arguments: which of the saved inputs pass the fence.
      policy: one of `hlo_remat.checkpoint_policies` or `jax.checkpoint_policies`, or a callable
        `policy(prim, *avals, **params)`; None saves nothing but the inputs.
      static_argnums: positions of arguments that are Python values for `fun`, not arrays;
        negative ones count from the end. Unhashable values are compared by identity.
      static_argnames: names of such arguments.

    Returns:
      A function with the signature of `fun`.

    Raises:
      TypeError: for a policy, static_argnums, static_argnames or prevent_cse of another type.
      ValueError: when called, for a static_argnums out of range.
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
        raise TypeError(f"checkpoint marks a function, got {fun!r}")
    policy = as_policy(policy)
    argnums, argnames = _static_options(static_argnums, static_argnames)

    @functools.wraps(fun)
    def marked(*args: Any, **kwargs: Any) -> Any:
        static = _static_positions(fun, args, argnums, argnames)
        traced, dyn_args, dyn_kwargs = _without_static(fun, args, kwargs, static, argnames)
        closed, out_shape = _trace(traced, dyn_args, dyn_kwargs)
        flat_args = jax.tree.leaves((dyn_args, dyn_kwargs))
        fence = _fence(prevent_cse, len(closed.consts), dyn_args, dyn_kwargs)
        label = getattr(fun, "__name__", type(fun).__name__)
        names = _check_names(fun, policy, closed)
        region = Region(label, policy, fence, names)
        outs = _bind_region(closed, flat_args, region)
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


def _bind_region(closed: Any, flat_args: Sequence[Any], region: Region) -> list[Any]:
    inputs = [*closed.consts, *flat_args]
    params = {"num_inputs": len(inputs), "region": region}
    inside = marker_p.bind(*inputs, kind=Kind.ENTER, **params) if inputs else []
    num_consts = len(closed.consts)
    outs = jax.core.eval_jaxpr(closed.jaxpr, inside[:num_consts], *inside[num_consts:])
    return marker_p.bind(*outs, *inputs, kind=Kind.EXIT, **params) if inputs and outs else outs


def _trace(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return jax.make_jaxpr(fun, return_shape=True)(*args, **kwargs)
    except jax.errors.ConcretizationTypeError as error:
        hint = (
            "\n\nThe function is traced by hlo_remat.checkpoint. If the value is known when it is "
            "called, pass it as a static argument: hlo_remat.checkpoint(fun, static_argnums=...) "
            "or static_argnames=..."
        )
        error.args = (f"{error.args[0]}{hint}", *error.args[1:])
        raise


# -- static arguments --------------------------------------------------------------------------


class _Static:
    """A static argument as a key: by value where it is hashable, by identity where not."""

    def __init__(self, value: Any):
        self.value = value
        try:
            self.hash, self.hashable = hash(value), True
        except TypeError:
            self.hash, self.hashable = id(value), False

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or self.hashable != other.hashable:
            return False
        if not self.hashable:
            return self.value is other.value
        return type(self.value) is type(other.value) and self.value == other.value


def _static_options(argnums: Any, argnames: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    nums = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(nums, Sequence) or not all(type(n) is int for n in nums):
        raise TypeError(
            f"static_argnums of hlo_remat.checkpoint must be an int or a sequence of ints, "
            f"got {argnums!r}"
        )
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if not all(isinstance(n, str) for n in names):
        raise TypeError(
            f"static_argnames of hlo_remat.checkpoint must be a string or strings, got {argnames!r}"
        )
    return tuple(nums), names


def _static_positions(
    fun: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], argnames: Sequence[str]
) -> frozenset[int]:
    for n in argnums:
        if not -len(args) <= n < len(args):
            raise ValueError(
                f"static_argnums of hlo_remat.checkpoint has {n}, but the function was called with "
                f"{len(args)} positional arguments; give a position from {-len(args)} to "
                f"{len(args) - 1}, or use static_argnames for keyword arguments"
            )
    positions = {n % len(args) for n in argnums}
    if argnames:
        try:
            parameters = list(inspect.signature(fun).parameters)
        except (TypeError, ValueError):
            parameters = []
        positions |= {i for i, name in enumerate(parameters[: len(args)]) if name in argnames}
    return frozenset(positions)


_bound: weakref.WeakKeyDictionary[Any, dict[Any, Callable[..., Any]]] = weakref.WeakKeyDictionary()


def _without_static(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    positions: frozenset[int],
    argnames: Sequence[str],
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """`fun` with its static arguments bound, and the other arguments.

    Equal static arguments give the same function object, which is what JAX caches traces by.
    """
    dyn_args = tuple(a for i, a in enumerate(args) if i not in positions)
    dyn_kwargs = {k: v for k, v in kwargs.items() if k not in argnames}
    static_args = tuple((i, _Static(args[i])) for i in sorted(positions))
    static_kwargs = tuple((k, _Static(kwargs[k])) for k in sorted(kwargs) if k in argnames)
    if not static_args and not static_kwargs:
        return fun, dyn_args, dyn_kwargs
    key = len(args), static_args, static_kwargs
    try:
        functions = _bound.setdefault(fun, {})
    except TypeError:  # no weak references to it
        functions = {}
    if key not in functions:
        functions[key] = _bind_static(weakref.proxy(fun), *key)
    return functions[key], dyn_args, dyn_kwargs


def _bind_static(fun: Callable[..., Any], num_args: int, args: Any, kwargs: Any) -> Any:
    static_args = dict(args)
    static_kwargs = {k: s.value for k, s in kwargs}

    def bound(*dyn_args: Any, **dyn_kwargs: Any) -> Any:
        rest = iter(dyn_args)
        full = [static_args[i].value if i in static_args else next(rest) for i in range(num_args)]
        return fun(*full, **dyn_kwargs, **static_kwargs)

    return bound


# -- prevent_cse and names ---------------------------------------------------------------------


def _fence(prevent_cse: Any, num_consts: int, args: Any, kwargs: Any) -> bool | tuple[bool, ...]:
    if isinstance(prevent_cse, bool):
        return prevent_cse
    leaves = jax.tree.leaves(prevent_cse)
    if not leaves or not all(isinstance(leaf, bool) for leaf in leaves):
        raise TypeError(
            "prevent_cse must be a bool or a pytree prefix of bools over the arguments, "
            f"got {prevent_cse!r}"
        )
    full = (tuple(args), kwargs) if kwargs else tuple(args)
    try:
        mask = jax.tree.broadcast(prevent_cse, full)
    except ValueError as error:
        raise ValueError(
            f"prevent_cse={prevent_cse!r} is not a pytree prefix of the arguments: {error}"
        ) from None
    return (False,) * num_consts + tuple(jax.tree.leaves(mask))


def _check_names(fun: Callable[..., Any], policy: Policy, closed: Any) -> tuple[str, ...]:
    """The names that matter in the traced function, if the policy speaks of any."""
    if not policy.names:
        return ()
    there = _compat.names_in_jaxpr(closed, name_p)
    missing = sorted(policy.names - there)
    if missing:
        code = getattr(inspect.unwrap(fun), "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        raise UnknownNameError(
            f"policy {policy} of region '{getattr(fun, '__name__', fun)}'{place} speaks of "
            f"{missing}, but no checkpoint_name in the region gives these names to a value that "
            f"its outputs depend on; the names there are: {sorted(there) or 'none'}"
        )
    return tuple(sorted(there))
