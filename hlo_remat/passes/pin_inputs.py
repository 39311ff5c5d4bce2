# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from jaxlib import version as jaxlib_version
from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir import fence
from hlo_remat.ir.index import Index, nested_ops
from hlo_remat.ir.markers import Kind
from hlo_remat.ir.needs import BRANCHES, LOOP
from hlo_remat.ir.regions import read_markers
from hlo_remat.ir.sizes import size_in_bytes
from hlo_remat.passes.base import Pass, option
from hlo_remat.strategy import choose, parse_version

# Ops whose results XLA always writes to memory and that may make much of little.
_GENERATORS = frozenset({LOOP, *BRANCHES, "stablehlo.rng_bit_generator", "stablehlo.custom_call"})


@dataclasses.dataclass(frozen=True)
class PinInputs(Pass):
    """Makes the small inputs of a region wait for the large ones, where it makes much of little.

    The random bits of a dropout depend on a key that is there from the start, so XLA may make
    those of all regions when the program starts, and they are all there at once. Here the key is
    not there before the region's other inputs are.

        %e:2 = composite "hlo_remat.enter" %x, %key   ==>   %p:2 = optimization_barrier %key, %x
        %bits = rng_bit_generator %e#1                      %bits = rng_bit_generator %p#0
    """

    name = "hlo-remat-pin-inputs"
    min_bytes: int = option(65536, "size in bytes from which a value is large")
    target: str = option("cpu", "platform that the module is compiled for: cpu, gpu, ...")
    jaxlib: str = option("", "version of the jaxlib that compiles the module, if not this one")

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        strategy = choose(self.target, parse_version(self.jaxlib or jaxlib_version.__version__))
        symbols = ir.SymbolTable(module.operation)
        for view in list(module.body.operations):
            function = view.operation
            if not any(op.name in _GENERATORS for op in nested_ops(function)):
                continue
            index = Index(function)
            for op, marker in read_markers(index, diagnostics).items():
                if marker.kind is not Kind.ENTER:
                    continue
                small, late = self.to_pin(index, op)
                if not small or not late:
                    continue
                held = [marker.inputs[k] for k in (*small, *late)]
                with ir.InsertionPoint(index.ops[op]), index.ops[op].location:
                    if strategy == "call":
                        pinned = fence.call(held, list, module, symbols)
                    else:
                        pinned = fence.barrier(held, list)
                for k, value in zip((*small, *late), pinned, strict=True):
                    index.ops[op].results[k].replace_all_uses_with(value)

    def to_pin(self, index: Index, enter: int) -> tuple[list[int], list[int]]:
        """The small inputs of a region that large values are made of without its large ones, and
        its large inputs that are computed beside it."""
        results = index.results[enter]
        sizes = [size_in_bytes(index.values[v].type) for v in results]
        large = [k for k, size in enumerate(sizes) if size >= self.min_bytes]
        late = [k for k in large if index.definer[index.operands[enter][k]] >= 0]
        if not late or len(large) == len(results):
            return [], []
        from_large = self.made_of(index, enter, [results[k] for k in large])
        small = []
        for k, v in enumerate(results):
            if k not in large:
                made = self.made_of(index, enter, [v]) - from_large
                if any(
                    index.names[index.definer[u]] in _GENERATORS
                    and size_in_bytes(index.values[u].type) >= self.min_bytes
                    for u in made
                ):
                    small.append(k)
        return small, late

    def made_of(self, index: Index, enter: int, values: list[int]) -> set[int]:
        """What depends on `values` within the block of a region's enter, up to its markers."""
        block = index.block[enter]
        found: set[int] = set()
        todo = list(values)
        while todo:
            for op, _ in index.uses[todo.pop()]:
                op = index.in_block(op, block)
                is_marker = index.names[op] == "stablehlo.composite"
                new = [v for v in index.results[op] if v not in found and not is_marker]
                found.update(new)
                todo += new
        return found
