# SPDX-License-Identifier: Apache-2.0
"""A module's values as terms.

No marker or label is trusted: a marker, a call and a fence are what their functions compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo_remat.validation.streams import after_loop
from hlo_remat.validation.terms import NotProvable, Terms

# By StableHLO's specification; what of other dialects isn't known may do anything.
_EFFECTS = frozenset(
    f"stablehlo.{name}"
    for name in ("after_all", "create_token", "infeed", "outfeed", "recv", "rng", "send")
)
_WITHOUT_EFFECTS = ("stablehlo.", "chlo.", "sdy.", "mhlo.", "arith.", "tensor.")
_TERMINATORS = frozenset({"func.return", "sdy.return", "stablehlo.return"})
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')


class Numbering:
    """The terms of one module's values. Modules to compare share `terms`, and a context."""

    def __init__(self, module: ir.Module, terms: Terms):
        self.terms = terms
        self.functions: dict[str, ir.Operation] = {}
        self.others: dict[str, str] = {}  # what else has a symbol
        for view in module.body.operations:
            op = view.operation
            if "sym_name" in op.attributes:
                name = ir.StringAttr(op.attributes["sym_name"]).value
                if op.name == "func.func":
                    self.functions[name] = op
                else:
                    self.others[name] = str(op)
        self._value: dict[int, int] = {}
        self._world = self._start = terms.intern(terms.head_of("world", (), (0,)), ())
        self._calls: list[str] = []
        self._referenced: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[str]]] = {}
        self._as_term: dict[str, int] = {}  # functions
        self._builders: dict[str, Any] = {
            "func.call": self._call,
            "sdy.manual_computation": self._manual,
            "stablehlo.case": self._branches,
            "stablehlo.composite": self._composite,
            "stablehlo.if": self._branches,
            "stablehlo.optimization_barrier": self._barrier,
            "stablehlo.while": self._loop,
        }

    def results(self, name: str) -> list[int]:
        """The terms of a function's results over its arguments, and last of what it leaves of the
        world: the effects that it had, in their order."""
        self._world = self._start
        types = ir.FunctionType(ir.TypeAttr(self.functions[name].attributes["function_type"]).value)
        arguments = [
            self.terms.intern(
                self.terms.head_of("argument", (name, k), (self.terms.add_type(t),)), ()
            )
            for k, t in enumerate(types.inputs)
        ]
        return [*self._inline(name, arguments), self._world]

    # -- blocks --------------------------------------------------------------------------------

    def _block(self, block: ir.Block) -> list[int]:
        """The terms of what a block's last op passes on. Its arguments have theirs."""
        value, terms, builders = self._value, self.terms, self._builders
        for view in block.operations:
            op = view.operation
            operands = [value[hash(v)] for v in op.operands]
            name = op.name
            if name in _TERMINATORS:
                return operands
            builder = builders.get(name)
            if builder is not None:
                found = builder(op, operands)
            else:
                found = self._plain(op, name, operands)
            for result, term in zip(op.results, found, strict=True):
                value[hash(result)] = term
                terms.source.setdefault(term, op)
        raise NotProvable("a block has no terminator that is known")

    def _plain(self, op: ir.Operation, name: str, operands: list[int]) -> Sequence[int]:
        attributes = op.attributes
        data = tuple([(k, hash(attributes[k])) for k in attributes]) if len(attributes) else ()
        types = tuple([self._type(v.type) for v in op.results])
        return self._apply(op, name, data, types, operands)

    def _type(self, type_: ir.Type) -> int:
        number = hash(type_)
        self.terms.types.setdefault(number, type_)
        return number

    def _apply(
        self,
        op: ir.Operation,
        name: str,
        data: tuple[Any, ...],
        types: tuple[int, ...],
        operands: list[int],
    ) -> Sequence[int]:
        terms = self.terms
        children = tuple(operands)
        if data:
            more, functions = self._symbols(op, data)
            data += more
            children += tuple(self._function(f) for f in functions)
        head = terms.head_of(name, data, types)
        if terms.heads[head].op is None:
            terms.heads[head].op = op
        regions = op.regions
        if len(regions):
            children += tuple(self._region(name, region) for region in regions)
        if name in _EFFECTS or not name.startswith(_WITHOUT_EFFECTS) or _has_effect(op, name):
            term = terms.intern(head, (*children, self._world))
            self._world = terms.intern(terms.head_of("effect", (), (0,)), (term,))
        else:
            term = terms.make(head, children)
        if len(types) == 1:
            return (term,)
        return [
            terms.intern(terms.head_of("result", (k,), (type_,)), (term,))
            for k, type_ in enumerate(types)
        ]

    def _symbols(
        self, op: ir.Operation, data: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[str]]:
        """What the symbols stand for that an op's attributes speak of, and which are functions."""
        if data not in self._referenced:
            attributes = op.attributes
            names = () if op.name == "stablehlo.constant" else attributes
            symbols = [s for name in names for s in _names(str(attributes[name]))]
            functions = [s for s in symbols if s in self.functions]
            others = tuple((s, self.others[s]) for s in symbols if s in self.others)
            self._referenced[data] = others, functions
        return self._referenced[data]

    def _only_block(self, region: ir.Region) -> ir.Block:
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise NotProvable("a region has more than one block")
        return blocks[0]

    def _set(self, values: Iterable[ir.Value], found: Iterable[int]) -> None:
        for value, term in zip(values, found, strict=True):
            self._value[hash(value)] = term

    def _types(self, values: Iterable[ir.Value]) -> list[int]:
        return [self._type(v.type) for v in values]

    # -- functions -----------------------------------------------------------------------------

    def _inline(self, name: str, operands: Sequence[int]) -> list[int]:
        if name in self._calls:
            raise NotProvable(f"function '{name}' calls itself")
        function = self.functions.get(name)
        if function is None or not len(function.regions[0].blocks):
            raise NotProvable(f"function '{name}' has no body")
        block = self._only_block(function.regions[0])
        self._set(block.arguments, operands)
        self._calls.append(name)
        found = self._block(block)
        self._calls.pop()
        return found

    def _call(self, op: ir.Operation, operands: list[int]) -> list[int]:
        return self._inline(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)

    def _composite(self, op: ir.Operation, operands: list[int]) -> Sequence[int]:
        name = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
        if ir.StringAttr(op.attributes["name"]).value.startswith("hlo_remat."):
            return self._inline(name, operands)
        attributes = op.attributes
        data = tuple((k, hash(attributes[k])) for k in attributes if k != "decomposition")
        types = tuple(self._types(op.results))
        return self._apply(op, op.name, data, types, operands)

    def _function(self, name: str) -> int:
        if name not in self._as_term:
            function = self.functions[name]
            if not len(function.regions[0].blocks):
                head = self.terms.head_of("external", (name,), (0,))
                self._as_term[name] = self.terms.intern(head, ())
            elif name in self._calls:
                raise NotProvable(f"function '{name}' calls itself")
            else:
                self._calls.append(name)
                self._as_term[name] = self._region("func.func", function.regions[0])
                self._calls.pop()
        return self._as_term[name]

    def _region(self, name: str, region: ir.Region) -> int:
        """A region as a function of its block's arguments."""
        block, terms, world = self._only_block(region), self.terms, self._world
        with terms.scope(self._types(block.arguments)) as (_, symbols):
            self._set(block.arguments, symbols)
            results = self._block(block)
            if self._world != world:
                raise NotProvable(f"a region of '{name}' has effects")
            return terms.function(name, symbols, results)

    # -- ops that are known --------------------------------------------------------------------

    def _barrier(self, op: ir.Operation, operands: list[int]) -> list[int]:
        return operands

    def _loop(self, op: ir.Operation, operands: list[int]) -> list[int]:
        condition, body = (self._only_block(region) for region in op.regions)
        terms = self.terms
        last = body.operations[len(body.operations) - 1].operation
        carried = [
            k
            for k, (argument, after) in enumerate(zip(body.arguments, last.operands, strict=True))
            if argument != after
        ]
        inside = list(operands)
        world = self._world
        with terms.scope([0, *(terms.type(operands[k]) for k in carried)]) as (bit, symbols):
            for k, symbol in zip(carried, symbols[1:], strict=True):
                inside[k] = symbol
            self._world = symbols[0]
            self._set(condition.arguments, inside)
            self._set(body.arguments, inside)
            (holds,) = self._block(condition)
            if self._world != symbols[0]:
                raise NotProvable("the condition of a loop has effects")
            passed = self._block(body)
            starts = [world, *(operands[k] for k in carried)]
            steps = [self._world, *(passed[k] for k in carried)]
            world, *found = after_loop(terms, bit, symbols, starts, steps, holds)
        self._world = world
        results = list(operands)
        for k, term in zip(carried, found, strict=True):
            results[k] = term
        return results

    def _branches(self, op: ir.Operation, operands: list[int]) -> list[int]:
        terms, world = self.terms, self._world
        regions = list(op.regions)
        if op.name == "stablehlo.if":  # the first region is the one for true, which is 1
            regions.reverse()
        by_branch = []
        for region in regions:
            self._world = world
            by_branch.append([*self._block(self._only_block(region)), self._world])
        types = [*self._types(op.results), 0]
        *found, self._world = (
            terms.make(terms.head_of("case", (), (type_,)), (operands[0], *branches))
            for type_, branches in zip(types, zip(*by_branch, strict=True), strict=True)
        )
        return found

    def _manual(self, op: ir.Operation, operands: list[int]) -> list[int]:
        terms = self.terms
        (region,) = op.regions
        block = self._only_block(region)
        axes = hash(op.attributes["manual_axes"])
        names = {
            s for k in ("in_shardings", "out_shardings") for s in _names(str(op.attributes[k]))
        }
        meshes = tuple(sorted((s, self.others.get(s)) for s in names))

        def crossing(kind: str, name: str, types: list[int], values: Sequence[int]) -> list[int]:
            shardings = sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings
            return [
                terms.make(terms.head_of(kind, (axes, hash(sharding), meshes), (type_,)), (value,))
                for sharding, type_, value in zip(shardings, types, values, strict=True)
            ]

        inner = self._types(block.arguments)
        self._set(block.arguments, crossing("local", "in_shardings", inner, operands))
        found = self._block(block)
        return crossing("global", "out_shardings", self._types(op.results), found)


def _has_effect(op: ir.Operation, name: str) -> bool:
    if name != "stablehlo.custom_call":
        return False
    attributes = op.attributes
    return "has_side_effect" in attributes and ir.BoolAttr(attributes["has_side_effect"]).value


def _names(text: str) -> list[str]:
    return [quoted or plain for quoted, plain in _SYMBOL.findall(text)] if "@" in text else []
