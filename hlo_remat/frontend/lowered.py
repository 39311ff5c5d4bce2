# SPDX-License-Identifier: Apache-2.0
"""The Lowered that `apply` returns: it compiles with the options that its fences need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from hlo_remat import _compat

# XLA options that are lists: what we need is appended to what the user gave.
_LISTS = frozenset({"xla_disable_hlo_passes"})


class RematLowered(jax.stages.Lowered):
    """A `jax.stages.Lowered` of a rewritten program.

    `hlo_remat_options` is what `compile` adds to the options that the user gives.
    """

    __slots__ = ("hlo_remat_options",)
    hlo_remat_options: dict[str, str]

    def compile(self, compiler_options: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        if compiler_options is not None:
            compiler_options = merge_options(compiler_options, self.hlo_remat_options)
        return super().compile(compiler_options, **kwargs)


def merge_options(users: Mapping[str, Any], ours: Mapping[str, str]) -> dict[str, Any]:
    """The user's compiler options with ours added: theirs win, lists are joined."""
    merged = dict(users)
    for name, value in ours.items():
        if name not in merged:
            merged[name] = value
        elif name in _LISTS:
            given = [v for v in str(merged[name]).split(",") if v]
            merged[name] = ",".join([*given, *(v for v in value.split(",") if v not in given)])
    return merged


def with_module(lowered: Any, module: Any, options: Mapping[str, str]) -> RematLowered:
    """A copy of a Lowered that compiles `module`; `lowered` itself stays as it is."""
    new = RematLowered.__new__(RematLowered)
    _compat.copy_lowered(lowered, new, module, lambda users: merge_options(users, options))
    new.hlo_remat_options = dict(options)
    return new
