# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.index import Index, nested_ops
from hlo_remat.ir.needs import BRANCHES, LOOP, MANUAL, SLOTTED, Needs, yielding_blocks
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.rebuild import rebuild, with_terminator
from hlo_remat.passes.base import Pass


@dataclasses.dataclass(frozen=True)
class DeadCarry(Pass):
    """Removes the carries of loops and the results of branches that nothing needs.

    A carry is needed where the loop's condition, an op with an effect, or a needed result depends
    on it, through any nest of loops and branches; so is a result of a `case`, an `if` or an
    `sdy.manual_computation`, and so is its operand. The pure ops that only the others read go too.

        %r:2 = while(%x, %stack)   ==>   %r = while(%x), where %r#1 is not needed
    """

    name = "hlo-remat-dead-carry"

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        purity = Purity(module)
        for view in list(module.body.operations):
            function = view.operation
            if any(op.name in SLOTTED for op in nested_ops(function)):
                index = Index(function)
                _remove_rest(index, _needs(index, purity.impure_ops(index)))


def _needs(index: Index, impure: list[bool]) -> Needs:
    """What the results and the effects of a function need."""
    needs = Needs(index)
    for i in range(len(index.ops)):
        if impure[i] or (index.parent[i] < 0 and i == index.blocks[index.block[i]][-1]):
            needs.add_op(i)
    needs.finish()
    # An op with slots keeps one: there is none without.
    while bare := [i for i in needs.ops if _has_no_slot(index, needs, i)]:
        for i in bare:
            needs.add_slot(i, 0)
        needs.finish()
    return needs


def _has_no_slot(index: Index, needs: Needs, op: int) -> bool:
    return index.names[op] in SLOTTED and bool(index.results[op]) and not needs.slots[op]


def _remove_rest(index: Index, needs: Needs) -> None:
    """From the last op to the first, so that whatever reads a dead value goes before it."""
    yielding = {b for op, kept in needs.slots.items() if kept for b in yielding_blocks(index, op)}
    for i in range(len(index.ops) - 1, -1, -1):
        parent, block = index.parent[i], index.block[i]
        if parent >= 0 and parent not in needs.ops:
            continue  # goes with its parent
        if i == index.blocks[block][-1]:
            kept = sorted(needs.slots[parent]) if block in yielding else []
            if kept and len(kept) < len(index.operands[i]):
                with_terminator(
                    index.ops[i].block, [index.values[index.operands[i][k]] for k in kept]
                )
        elif i not in needs.ops:
            index.ops[i].erase()
        elif index.names[i] in SLOTTED:
            _rebuild(index, needs, i)


def _rebuild(index: Index, needs: Needs, i: int) -> None:
    op, results, operands = (
        index.ops[i],
        sorted(needs.slots[i]),
        list(range(len(index.operands[i]))),
    )
    if index.names[i] == LOOP:
        operands = results
    elif index.names[i] == MANUAL:
        arguments = index.block_arguments[index.nested_blocks[i][0]]
        operands = [k for k in operands if needs.has(arguments[k])]
    if len(results) == len(index.results[i]) and len(operands) == len(index.operands[i]):
        return
    if index.names[i] not in BRANCHES:
        for region in op.regions:
            for k in reversed(range(len(op.operands))):
                if k not in operands:
                    region.blocks[0].erase_argument(k)
    rebuild(
        op,
        [index.values[index.operands[i][k]] for k in operands],
        [op.results[k].type for k in results],
        results,
        operands,
    )
