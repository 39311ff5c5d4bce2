# SPDX-License-Identifier: Apache-2.0
"""`checkpoint_policies`, and the way from JAX's policies and users' callables to ours."""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Set
from typing import Any

import jax
from jaxlib.mlir import ir

from hlo_remat import _compat, policies
from hlo_remat.frontend import readback
from hlo_remat.policies import Policy


def _distinct(names: Any) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(names))
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a policy's names are strings, got {name!r}")
    return names


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Save any value but those that carry one of the names."""
    return policies.SaveAnythingExceptTheseNames(_distinct(names_not_to_save))


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Save named values only, but none that carries only the names given."""
    return policies.SaveAnyNamesButThese(_distinct(names_not_to_save))


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Save named values only, and only those that carry one of the names given."""
    return policies.SaveOnlyTheseNames(_distinct(names_which_can_be_saved))


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Move results of dots without batch dimensions from memory `offload_src` to `offload_dst`."""
    return policies.OffloadDotWithNoBatchDims(offload_src, offload_dst)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Any,
    names_which_can_be_offloaded: Any,
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Save some named values and offload others.

    Raises ValueError where a name is in both lists.
    """
    saved, offloaded = _distinct(names_which_can_be_saved), _distinct(names_which_can_be_offloaded)
    both = sorted(set(saved) & set(offloaded))
    if both:
        raise ValueError(
            f"the names {both} are in names_which_can_be_saved and in names_which_can_be_offloaded;"
            " keep each in one of them"
        )
    return policies.SaveAndOffloadOnlyTheseNames(saved, offloaded, offload_src, offload_dst)


def save_from_both_policies(policy_1: Any, policy_2: Any) -> Policy:
    """Save what either policy saves; where one saves and the other offloads, save."""
    return policies.SaveFromBothPolicies(as_policy(policy_1), as_policy(policy_2))


_dots = policies.DotsSaveable()
_dots_with_no_batch_dims = policies.DotsWithNoBatchDimsSaveable()

checkpoint_policies = types.SimpleNamespace(
    everything_saveable=policies.EverythingSaveable(),
    nothing_saveable=policies.NothingSaveable(),
    dots_saveable=_dots,
    checkpoint_dots=_dots,
    dots_with_no_batch_dims_saveable=_dots_with_no_batch_dims,
    checkpoint_dots_with_no_batch_dims=_dots_with_no_batch_dims,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)

_SIMPLE = (
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
)
_FROM_JAX = {
    id(getattr(jax.checkpoint_policies, name)): getattr(checkpoint_policies, name)
    for name in _SIMPLE
}
_keys: dict[Callable[..., Any], str] = {}
_counter = itertools.count()


def as_policy(policy: Any) -> Policy:
    """A policy of ours, of JAX's, or a callable `policy(prim, *avals, **params)`, as one of ours.

    None is nothing_saveable, as in `jax.checkpoint`. A callable returns a bool, or JAX's Saveable,
    Recompute or Offloadable; the partition pass calls it for the ops of the lowered module, each
    read back as the primitive it came from. Raises TypeError for anything else.
    """
    if policy is None:
        return checkpoint_policies.nothing_saveable
    if isinstance(policy, Policy):
        return policy
    if id(policy) in _FROM_JAX:
        return _FROM_JAX[id(policy)]
    if not callable(policy):
        raise TypeError(
            "policy must be one of hlo_remat.checkpoint_policies, one of jax.checkpoint_policies, "
            f"or a callable policy(prim, *avals, **params); got {policy!r}"
        )
    return _from_jax_factory(policy) or _register(policy)


def _from_jax_factory(policy: Callable[..., Any]) -> Policy | None:
    """Ours, from a policy that a function in jax.checkpoint_policies made."""
    name, given = _compat.jax_policy(policy) or ("", {})
    factory = getattr(checkpoint_policies, name, None)
    if factory is None:
        return None
    # Sets of names are sorted, so that the lowered text is the same in each process.
    values = {k: sorted(v) if isinstance(v, Set) else v for k, v in given.items()}
    parameters = inspect.signature(factory).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return factory(*itertools.chain(*values.values()))
    return factory(**values)


def _register(policy: Callable[..., Any]) -> Policy:
    try:
        key = _keys.get(policy)
    except TypeError as error:
        raise TypeError(f"a policy must be hashable, got {policy!r}") from error
    if key is None:
        name = getattr(policy, "__qualname__", type(policy).__qualname__)
        key = _keys[policy] = f"{name}#{next(_counter)}"
        policies.CUSTOM[key] = lambda op, names: _ask(policy, op, names)
    return policies.Custom(key)


def _ask(policy: Callable[..., Any], op: ir.Operation | None, names: Set[str]) -> policies.Decision:
    answers = [policy(p, *avals, **params) for p, avals, params in readback.read(op, names)]
    decisions = [_as_decision(policy, answer) for answer in answers]
    if any(d is True for d in decisions):
        return True
    return next((d for d in decisions if d), False)


def _as_decision(policy: Callable[..., Any], answer: Any) -> policies.Decision:
    if isinstance(answer, bool):
        return answer
    saveable, recompute, offloadable = _compat.policy_answers()
    if answer is saveable or answer is recompute:
        return answer is saveable
    if isinstance(answer, offloadable):
        return policies.Offload(answer.src, answer.dst)
    raise TypeError(
        f"policy {policy!r} returned {answer!r}; it must return a bool, or JAX's Saveable, "
        "Recompute or Offloadable"
    )
