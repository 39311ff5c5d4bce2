# SPDX-License-Identifier: Apache-2.0
"""Whatever touches private parts of JAX or jaxlib, or differs between their versions."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, mpmd, sdy, stablehlo


def make_context() -> ir.Context:
    """A new MLIR context with every dialect that JAX lowers to, without importing jax."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in (sdy, mpmd, chlo, stablehlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    context.load_all_available_dialects()
    # Python passes hold the GIL; with threads, IR printing and passes would wait for each other.
    context.enable_multithreading(False)
    return context


stablehlo.register_stablehlo_passes()


def lowering_context(ctx: Any) -> ir.Context:
    """The MLIR context of a JAX lowering rule."""
    return ctx.module_context.context


def lowering_module(ctx: Any) -> tuple[ir.SymbolTable, ir.Operation]:
    """The symbol table and the module that a JAX lowering rule builds into."""
    return ctx.module_context.symbol_table, ctx.module_context.module.operation


def policy_answers() -> tuple[Any, Any, type]:
    """JAX's Saveable and Recompute, and the class of its Offloadable."""
    from jax._src.interpreters import partial_eval

    return partial_eval.Saveable, partial_eval.Recompute, partial_eval.Offloadable


def names_in_jax_policy(policy: Any) -> list[str] | None:
    """The names in a policy made by jax.checkpoint_policies.save_only_these_names, else None.

    A dataclass up to JAX 0.10, a closure since.
    """
    import jax

    probe = jax.checkpoint_policies.save_only_these_names("probe")
    if type(policy) is type(probe) and hasattr(policy, "saveable_names"):
        return sorted(policy.saveable_names)
    code = getattr(probe, "__code__", None)
    if code is not None and getattr(policy, "__code__", None) is code:
        return sorted(policy.__closure__[0].cell_contents)
    return None


def names_in_jaxpr(closed: Any, name_p: Any) -> set[str]:
    """The names given by `name_p` to values that the outputs of a closed jaxpr depend on."""
    from jax.extend.core import jaxprs_in_params
    from jax.interpreters import partial_eval

    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    names, todo = set(), [live]
    while todo:
        for eqn in todo.pop().eqns:
            if eqn.primitive is name_p:
                names.add(eqn.params["name"])
            todo.extend(jaxprs_in_params(eqn.params))
    return names


def inline_body(
    function: ir.Operation, arguments: Sequence[ir.Value], location: ir.Location
) -> list[ir.Value]:
    """Copies the body of a one-block function to the insertion point; its results there."""
    with location:  # it crashes without a current location
        return list(_jax_mlir_ext.inlined_func_call(function, list(arguments), location))


def is_lowered(x: Any) -> bool:
    """Whether `x` is a jax.stages.Lowered, without importing jax for it."""
    stages = sys.modules.get("jax.stages")
    return stages is not None and isinstance(x, stages.Lowered)


def lowered_platforms(lowered: Any) -> tuple[str, ...]:
    """The platforms that a Lowered was lowered for, such as ("cpu",)."""
    return tuple(lowered._lowering._platforms or ())


def copy_lowered(
    lowered: Any,
    new: Any,
    module: ir.Module,
    merge_options: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Makes `new`, an empty jax.stages.Lowered, a copy of `lowered` that compiles `module`.

    `merge_options` maps the compiler options of the user's `jax.jit` to those of the copy.
    """
    import jax

    for name in jax.stages.Lowered.__slots__:
        setattr(new, name, getattr(lowered, name))
    lowering = copy.copy(lowered._lowering)
    lowering._hlo = module
    lowering._executable = None
    users = dict(lowering._compiler_options_kvs)
    lowering._compiler_options_kvs = tuple(merge_options(users).items())
    new._lowering = lowering
