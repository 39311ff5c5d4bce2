# SPDX-License-Identifier: Apache-2.0
"""Static arguments: Python values that a marked function reads while it is traced."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pickle
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any


@dataclasses.dataclass(frozen=True)
class Static:
    """Static arguments by position or name, equal where their contents were when it was made.

    As one hashable argument it is what JAX caches traces by. The key is a copy, so that a list
    that was changed since is another argument.
    """

    arguments: Mapping[int | str, Any] = dataclasses.field(compare=False)
    key: Hashable


def make_static(arguments: Mapping[int | str, Any]) -> tuple[Static, bool]:
    """The static arguments as a key, and whether equal ones give an equal key."""
    try:
        return Static(arguments, _frozen(arguments)), True
    except Exception:  # whatever a user's __reduce__ or __hash__ raises
        return Static(arguments, object()), False


def _frozen(value: Any) -> Hashable:
    """A hashable copy; the types keep True, 1 and 1.0 apart."""
    if isinstance(value, Mapping):
        return type(value), tuple((_frozen(k), _frozen(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_frozen, value))
    if isinstance(value, Set):
        return type(value), frozenset(map(_frozen, value))
    try:
        hash(value)
    except TypeError:
        return type(value), pickle.dumps(value)
    return type(value), value


def read_options(argnums: Any, argnames: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """static_argnums and static_argnames as tuples. Raises TypeError for other types."""
    nums = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(nums, Sequence) or not all(type(n) is int for n in nums):
        raise TypeError(
            "static_argnums of hlo_remat.checkpoint must be an int or a sequence of ints, "
            f"got {argnums!r}"
        )
    names = (argnames,) if isinstance(argnames, str) else argnames
    names = tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(n, str) for n in names):
        raise TypeError(
            f"static_argnames of hlo_remat.checkpoint must be a string or strings, got {argnames!r}"
        )
    return tuple(nums), names


def parameter_names(fun: Callable[..., Any], argnames: Sequence[str]) -> list[str]:
    """The names of the positional parameters of `fun`.

    Raises ValueError where one of `argnames` is no parameter of it.
    """
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return []
    kinds = {p.kind for p in parameters.values()}
    unknown = sorted(set(argnames) - set(parameters))
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ValueError(
            f"static_argnames of hlo_remat.checkpoint has {unknown}, but the function's "
            f"parameters are {[*parameters]}"
        )
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters.values() if p.kind in positional]


def static_positions(
    num_args: int, argnums: Sequence[int], argnames: Sequence[str], parameters: Sequence[str]
) -> set[int]:
    """Which of `num_args` positional arguments are static.

    Raises ValueError for a position that is out of range.
    """
    for n in argnums:
        if not -num_args <= n < num_args:
            where = f"from {-num_args} to {num_args - 1}" if num_args else "of an argument"
            raise ValueError(
                f"static_argnums of hlo_remat.checkpoint has {n}, but the function was called with "
                f"{num_args} positional arguments; give a position {where}, or use "
                "static_argnames for keyword arguments"
            )
    named = {i for i, name in enumerate(parameters[:num_args]) if name in argnames}
    return {n % num_args for n in argnums} | named


_by_id: dict[int, Callable[..., Any]] = {}


def with_static(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` with its static arguments as one `Static` before the others: `(static, *args, **kw)`.

    The same function object for as long as `fun` lives, since JAX caches traces by it. It holds
    `fun` weakly: the caller keeps it alive. By identity, since an `__eq__` may mean anything.
    """
    known = _by_id.get(id(fun))
    if known is None:
        known = _by_id[id(fun)] = unpack_static(weakref.ref(fun))
        weakref.finalize(fun, _by_id.pop, id(fun), None).atexit = False
    return known


def unpack_static(fun: Callable[[], Callable[..., Any] | None]) -> Callable[..., Any]:
    """A new function like that of `with_static`, of the function that `fun()` returns."""
    return _Unpacking(fun)


class _Unpacking:
    """A function that JAX shows in its messages as the one that it calls.

    JAX shows a name and where the code is, and neither keeps that function alive.
    """

    def __init__(self, fun: Callable[[], Callable[..., Any] | None]):
        self._fun = fun
        target: Any = fun()
        while isinstance(target, functools.partial):
            target = target.func
        target = inspect.unwrap(target)
        if hasattr(target, "__code__"):
            self.__name__, self.__code__ = target.__name__, target.__code__

    def __call__(self, static: Static, /, *args: Any, **kwargs: Any) -> Any:
        target, rest = self._fun(), iter(args)
        assert target is not None
        named = {k: v for k, v in static.arguments.items() if isinstance(k, str)}
        num_args = len(args) + len(static.arguments) - len(named)
        full = [
            static.arguments[i] if i in static.arguments else next(rest) for i in range(num_args)
        ]
        return target(*full, **kwargs, **named)
