# SPDX-License-Identifier: Apache-2.0
"""The names in a region: JAX's own as ours, and the check of a policy's names.

`jax.ad_checkpoint.checkpoint_name` lowers to nothing. In a region each such name gets one of ours
beside it, so that models written for `jax.checkpoint` need no change; JAX's stays for the policies
of a `jax.checkpoint` inside. Names in the rules of custom_vjp and custom_jvp functions count too.
Out of reach, only with JAX_REMAT3=1: those inside a `jax.checkpoint` inside the region.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence, Set
from typing import Any

from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, Var, jaxprs_in_params

from hlo_remat import _compat
from hlo_remat.frontend.primitives import name_p

# What a jaxpr became, None where it stays as it is: JAX's caches go by the identity of jaxprs.
_named: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def with_our_names(jaxpr: Any) -> Any:
    """An open or closed jaxpr with a name of ours beside each of JAX's; itself if there is none."""
    if jaxpr not in _named:
        changed = _changed(jaxpr)
        _named[jaxpr] = None if changed is jaxpr else changed
    known = _named[jaxpr]
    return jaxpr if known is None else known


def _changed(jaxpr: Any) -> Any:
    if not isinstance(jaxpr, Jaxpr):
        inner = with_our_names(jaxpr.jaxpr)
        return jaxpr if inner is jaxpr.jaxpr else jaxpr.replace(jaxpr=inner)
    # Of an inner region, JAX's names already have ours beside them.
    done = {id(eqn.invars[0]) for eqn in jaxpr.eqns if eqn.primitive is name_p}
    eqns = [new for eqn in jaxpr.eqns for new in _changed_equation(eqn, done)]
    same = len(eqns) == len(jaxpr.eqns) and all(map(operator.is_, eqns, jaxpr.eqns))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _changed_equation(eqn: Any, done: Set[int]) -> Sequence[Any]:
    name = _compat.jax_name(eqn)
    if name is not None:
        out = eqn.outvars[0]
        if isinstance(out, DropVar) or id(out) in done:
            return [eqn]
        between = Var(out.aval)
        ours = eqn.replace(primitive=name_p, params={"name": name}, invars=[between])
        return [eqn.replace(outvars=[between]), ours]
    params = {k: _in_parameter(v) for k, v in eqn.params.items()}
    changed = any(params[k] is not v for k, v in eqn.params.items())
    # The jaxpr of a custom_vjp's fwd comes to light only when it is differentiated. A custom_jvp's
    # rule computes the function again: it has the names that the function has.
    if changed or _compat.has_fwd_rule(eqn):
        params, changed = _compat.with_rules(params, with_our_names), True
    return [eqn.replace(params=params) if changed else eqn]


def _in_parameter(value: Any) -> Any:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return with_our_names(value)
    if type(value) is tuple:
        new = tuple(map(_in_parameter, value))
        return new if any(map(operator.is_not, new, value)) else value
    return value


def names_in(closed: Any, wanted: Set[str]) -> set[str]:
    """The names that a closed jaxpr gives to values that its outputs depend on.

    The fwd rules of its custom_vjp functions are traced only while a wanted name isn't found.
    """
    names: set[str] = set()
    todo, rules, seen = [_compat.live_equations(closed.jaxpr)], {}, set()
    while todo:
        for eqn in todo.pop().eqns:
            if eqn.primitive is name_p:
                names.add(eqn.params["name"])
            todo.extend(jaxprs_in_params(eqn.params))
            if _compat.has_fwd_rule(eqn):
                rules[_compat.fwd_rule_source(eqn)] = eqn
        while not todo and wanted - names and rules:
            source, eqn = rules.popitem()
            if source not in seen:  # a fwd may well call its own function
                seen.add(source)
                todo.append(_compat.fwd_rule_jaxpr(eqn))
    return names
