# SPDX-License-Identifier: Apache-2.0
"""Whatever touches private parts of JAX or jaxlib, or differs between their versions."""

from __future__ import annotations

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
