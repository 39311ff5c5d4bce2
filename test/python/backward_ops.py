# SPDX-License-Identifier: Apache-2.0
"""What a rewritten program runs in its backward: the ops that depend on the cotangents."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
from jaxlib.mlir import ir

import hlo_remat


def backward_ops(f, *args) -> Counter:
    """How often each op stands in the backward of `f` once `hlo_remat.apply` has rewritten it.

    The fence makes a recompute depend on the cotangents, so it counts as well. A body of a loop
    counts once.
    """
    cotangents = jax.tree.map(lambda o: jnp.ones(o.shape, o.dtype), jax.eval_shape(f, *args))

    def pulled_back(cotangents, *args):
        return jax.vjp(f, *args)[1](cotangents)

    lowered = hlo_remat.apply(jax.jit(pulled_back, keep_unused=True).lower(cotangents, *args))
    return _Walk(lowered.compiler_ir("stablehlo"), len(jax.tree.leaves(cotangents))).counts


class _Walk:
    def __init__(self, module: ir.Module, num_cotangents: int):
        self.counts: Counter = Counter()
        self.functions = {
            ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
            for view in module.body.operations
        }
        main = self.functions["main"].regions[0].blocks[0]
        self.block(main, set(list(main.arguments)[:num_cotangents]), False)

    def block(self, block: ir.Block, late: set, everything: bool) -> list[bool]:
        """Which values of its terminator depend on the cotangents; `late` are values that do."""
        late = late | set(block.arguments) if everything else set(late)
        operations = [view.operation for view in block.operations]
        for op in operations:
            self.op(op, late, everything)
        return [v in late for v in operations[-1].operands]

    def op(self, op: ir.Operation, late: set, everything: bool) -> None:
        operands = [v in late for v in op.operands]
        depends = everything or any(operands)
        if op.name == "func.call":
            name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            body = self.functions[name].regions[0].blocks[0]
            arguments = {a for a, is_late in zip(body.arguments, operands, strict=True) if is_late}
            results = self.block(body, arguments, everything)
            is_fence = name.startswith("hlo_remat.fenced")
            late.update(r for r, d in zip(op.results, results, strict=True) if d or is_fence)
            return
        if depends:
            self.counts[op.name.removeprefix("stablehlo.")] += 1
            late.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                if any(self.block(block, late, depends)):
                    late.update(op.results)
