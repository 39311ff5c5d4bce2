# SPDX-License-Identifier: Apache-2.0
"""Whatever touches private parts of JAX or jaxlib, or differs between their versions."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
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


def policy_answers() -> tuple[Any, Any, Any]:
    """JAX's Saveable and Recompute, and the class of its Offloadable."""
    from jax._src.interpreters import partial_eval

    return partial_eval.Saveable, partial_eval.Recompute, partial_eval.Offloadable


def jax_policy(policy: Any) -> tuple[str, dict[str, Any]] | None:
    """Which function of jax.checkpoint_policies made a policy, and its arguments; else None.

    A dataclass up to JAX 0.10 for some, a closure for the others and since.
    """
    from jax._src import ad_checkpoint

    if getattr(policy, "__module__", None) != ad_checkpoint.__name__:
        return None
    if dataclasses.is_dataclass(policy):
        words = re.findall("[A-Z][a-z]+", type(policy).__name__)
        return "_".join(words).lower(), dict(vars(policy))
    return policy.__qualname__.split(".")[0], dict(inspect.getclosurevars(policy).nonlocals)


def jax_name(eqn: Any) -> str | None:
    """The name that an equation gives, where it is one of JAX's own checkpoint_name."""
    from jax._src import ad_checkpoint

    if eqn.primitive is ad_checkpoint.name_p:
        return eqn.params["name"]
    primitive = eqn.params.get("_prim")  # with JAX_REMAT3=1
    return primitive.name if isinstance(primitive, ad_checkpoint.CheckpointName) else None


def with_rules(params: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """An equation's parameters with `change` made to the jaxprs of its custom derivatives."""
    from jax._src import linear_util

    def changed(rule: Any) -> Any:
        def call(*which: bool) -> Any:
            jaxpr, *rest = rule.call_wrapped(*which)
            return change(jaxpr), *rest

        return linear_util.wrap_init(call, debug_info=rule.debug_info)

    rules = ("fwd_jaxpr_thunk", "jvp_jaxpr_fun")
    return {k: changed(v) if k in rules else v for k, v in params.items()}


def has_fwd_rule(eqn: Any) -> bool:
    """Whether an equation calls a custom_vjp function."""
    return "fwd_jaxpr_thunk" in eqn.params


def fwd_rule_source(eqn: Any) -> str:
    """Which function the fwd rule of a custom_vjp call is."""
    debug_info = eqn.params["fwd_jaxpr_thunk"].debug_info
    return f"{debug_info.func_name} {debug_info.func_src_info}"


def fwd_rule_jaxpr(eqn: Any) -> Any:
    """The jaxpr of the fwd rule of a custom_vjp call, traced now if it was not yet."""
    num_args = len(eqn.invars) - eqn.params["num_consts"]
    return eqn.params["fwd_jaxpr_thunk"].call_wrapped(*[True] * num_args)[0]


def live_equations(jaxpr: Any) -> Any:
    """A jaxpr without the equations that its outputs don't depend on."""
    from jax.interpreters import partial_eval

    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def in_messages(fun: Callable[..., Any]) -> str:
    """How JAX's errors speak of a function that they happened in."""
    from jax._src import api_util

    return f"while tracing the function {api_util.fun_sourceinfo(fun)} for "


def pass_keys(primitive: Any, num_passed: Callable[[Any], int]) -> None:
    """Tells jax.debug_key_reuse that a primitive passes its first operands, and uses no key.

    `num_passed` of an equation is how many. It takes any other primitive to use up its keys.
    """
    from jax.experimental.key_reuse import _core

    def signature(eqn: Any) -> Any:
        return _core.KeyReuseSignature(*(_core.Forward(i, i) for i in range(num_passed(eqn))))

    _core.key_reuse_signatures[primitive] = _core.dynamic_key_reuse_signature(signature)


def hide_frames(path: str) -> None:
    """Leaves files below `path` out of JAX's tracebacks and of the locations of ops."""
    from jax._src import source_info_util, traceback_util

    source_info_util.register_exclusion(path)
    traceback_util.register_exclusion(path)


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


def device_description(platform: str) -> str:
    """Platform and kind of the first device of a platform here, the platform alone if none is."""
    device = _first_device(platform)
    return platform if device is None else f"{platform} {device.device_kind}"


def device_memory(platform: str) -> int | None:
    """Bytes that programs may use on the first device of a platform here; of a CPU all that the
    machine has. None where that isn't known."""
    device = _first_device(platform)
    stats = (device.memory_stats() if device is not None else None) or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if platform == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def has_device(platform: str) -> bool:
    """Whether there is a device of a platform here."""
    return _first_device(platform) is not None


def _first_device(platform: str) -> Any:
    import jax

    try:
        return jax.local_devices(backend=platform)[0]
    except RuntimeError:
        return None


def compile_module(module: ir.Module, platform: str, options: Mapping[str, str]) -> tuple[str, Any]:
    """XLA's program for a module of one device, as text, and its `memory_analysis()`. A device of
    the platform must be here."""
    device = _first_device(platform)
    from jax._src import compiler
    from jaxlib import _jax

    compile_options = compiler.get_compile_options(
        1,
        1,
        device_assignment=np.array([[device.id]]),
        env_options_overrides=dict(options),
        backend=device.client,
    )
    executable = compiler.backend_compile_and_load(
        device.client, module, _jax.DeviceList((device,)), compile_options, []
    )
    return executable.hlo_modules()[0].to_string(), executable.get_compiled_memory_stats()


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
