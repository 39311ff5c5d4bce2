# SPDX-License-Identifier: Apache-2.0
"""A module's values as terms.

No marker or label is trusted: a marker, a call and a fence are what their functions compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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
Values = list[ir.Value]


class _Kind(NamedTuple):
    """What ops of one name, attributes and types have in common: the head of their terms, the
    functions that their attributes speak of, and whether they have effects."""

    head: int
    functions: list[str]
    has_effect: bool


class Numbering:
    """The terms of one module's values. Modules to compare share `terms`, and a context."""

    def __init__(self, module: ir.Operation, terms: Terms):
        self.terms = terms
        self.functions: dict[str, ir.Operation] = {}
        self.others: dict[str, str] = {}  # what else has a symbol
        for view in module.regions[0].blocks[0].operations:
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
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._as_term: dict[str, tuple[int, bool]] = {}  # functions
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
            self.terms.intern(self.terms.head_of("argument", (name, k), (self._type(t),)), ())
            for k, t in enumerate(types.inputs)
        ]
        return [*self._inline(name, arguments, types.results), self._world]

    def _type(self, type_: ir.Type) -> int:
        number = hash(type_)
        self.terms.types.setdefault(number, type_)
        return number

    def signature(self, name: str) -> dict[str, Any]:
        """A function's attributes, with what the symbols in them stand for."""
        attributes = self.functions[name].attributes
        return {
            k: (hash(attributes[k]), [self.others.get(s) for s in _names(str(attributes[k]))])
            for k in attributes
        }

    # -- blocks --------------------------------------------------------------------------------

    def _block(self, block: ir.Block) -> list[int]:
        """The terms of what a block's last op passes on. Its arguments have theirs."""
        value, source, builders = self._value, self.terms.source, self._builders
        operands: list[int] = []
        for view in block.operations:
            op = view.operation
            operands = [value[hash(v)] for v in op.operands]
            name = op.name
            if name in _TERMINATORS:
                break
            results = list(op.results)
            builder = builders.get(name, self._plain)
            for result, term in zip(results, builder(op, operands, results), strict=True):
                value[hash(result)] = term
                if term not in source:
                    source[term] = op
        return operands

    def _plain(
        self, op: ir.Operation, operands: list[int], results: Values, leave_out: str = ""
    ) -> Sequence[int]:
        """The results of an op of which nothing is known but its name and attributes."""
        attributes = op.attributes
        data: tuple[Any, ...] = ()
        if len(attributes):
            try:
                data = tuple([(k, hash(attributes[k])) for k in attributes if k != leave_out])
            except TypeError:  # the bindings don't read complex elements
                data = (str(op.get_asm(print_generic_op_form=True)).partition(" = ")[2],)
        key = op.name, data, tuple([hash(v.type) for v in results])
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._kind(op, *key)
        children = tuple(operands)
        has_effect = kind.has_effect
        for symbol in kind.functions:
            function, affects = self._function(symbol)
            children += (function,)
            has_effect |= affects
        regions = op.regions
        if len(regions):
            for region in regions:
                function, affects = self._region(op.name, region)
                children += (function,)
                has_effect |= affects
        if has_effect:
            return self._effect(kind.head, children, key[2])
        term = self.terms.make(kind.head, children)
        return (term,) if len(results) == 1 else self._results(term, key[2])

    def _kind(
        self, op: ir.Operation, name: str, data: tuple[Any, ...], types: tuple[int, ...]
    ) -> _Kind:
        """What ops that are alike have in common."""
        for v in op.results:
            self._type(v.type)
        attributes = op.attributes
        names = () if name == "stablehlo.constant" else attributes
        symbols = [s for k in names for s in _names(str(attributes[k]))]
        others = tuple((s, self.others[s]) for s in symbols if s in self.others)
        head = self.terms.head_of(name, data + others, types)
        if self.terms.heads[head].op is None:
            self.terms.heads[head].op = op
        has_effect = name in _EFFECTS or not name.startswith(_WITHOUT_EFFECTS)
        has_effect |= name == "stablehlo.custom_call" and _has_side_effect(op)
        return _Kind(head, [s for s in symbols if s in self.functions], has_effect)

    def _results(self, term: int, types: Sequence[int]) -> list[int]:
        terms = self.terms
        return [
            terms.intern(terms.head_of("result", (k,), (type_,)), (term,))
            for k, type_ in enumerate(types)
        ]

    def _effect(self, head: int, children: Sequence[int], types: Sequence[int]) -> list[int]:
        """The results of what may do anything: it comes after all that did so before."""
        self._world = self.terms.intern(head, (*children, self._world))
        return self._results(self._world, types)

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

    def _inline(
        self, name: str, operands: Sequence[int], types: Iterable[ir.Type]
    ) -> Sequence[int]:
        """What a function returns. One that calls itself, or has a control flow graph, is what its
        text says."""
        function = self.functions[name]
        blocks = list(function.regions[0].blocks)
        if name in self._calls or len(blocks) != 1:
            head = self.terms.head_of("func.call", self._text(name), (0,))
            return self._effect(head, operands, [self._type(t) for t in types])
        self._set(blocks[0].arguments, operands)
        self._calls.append(name)
        found = self._block(blocks[0])
        self._calls.pop()
        return found

    def _call(self, op: ir.Operation, operands: list[int], results: Values) -> Sequence[int]:
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return self._inline(name, operands, [v.type for v in results])

    def _composite(self, op: ir.Operation, operands: list[int], results: Values) -> Sequence[int]:
        if ir.StringAttr(op.attributes["name"]).value.startswith("hlo_remat."):
            name = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
            return self._inline(name, operands, [v.type for v in results])
        return self._plain(op, operands, results, leave_out="decomposition")

    def _text(self, name: str) -> tuple[str, ...]:
        """All that a function may run, as text."""
        found: dict[str, str] = {}
        todo = [name]
        while todo:
            symbol = todo.pop()
            if symbol not in found and (symbol in self.functions or symbol in self.others):
                function = self.functions.get(symbol)
                found[symbol] = str(function) if function is not None else self.others[symbol]
                todo += _names(found[symbol])
        return tuple(found.values())

    def _function(self, name: str) -> tuple[int, bool]:
        """A function as a term, and whether it has effects."""
        if name not in self._as_term:
            function = self.functions[name]
            if name in self._calls or len(function.regions[0].blocks) != 1:
                head = self.terms.head_of("text", self._text(name), (0,))
                return self.terms.intern(head, ()), True
            self._calls.append(name)
            self._as_term[name] = self._region("func.func", function.regions[0])
            self._calls.pop()
        return self._as_term[name]

    def _region(self, name: str, region: ir.Region) -> tuple[int, bool]:
        """A region as a function of the world and its block's arguments, and whether it has
        effects."""
        block, terms, world = self._only_block(region), self.terms, self._world
        with terms.scope([0, *self._types(block.arguments)]) as (_, symbols):
            self._world = symbols[0]
            self._set(block.arguments, symbols[1:])
            results = self._block(block)
            after, self._world = self._world, world
            return terms.function(name, symbols, [*results, after]), after != symbols[0]

    # -- ops that are known --------------------------------------------------------------------

    def _barrier(self, op: ir.Operation, operands: list[int], results: Values) -> list[int]:
        return operands

    def _loop(self, op: ir.Operation, operands: list[int], results: Values) -> list[int]:
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
        after = list(operands)
        for k, term in zip(carried, found, strict=True):
            after[k] = term
        return after

    def _branches(self, op: ir.Operation, operands: list[int], results: Values) -> list[int]:
        terms, world = self.terms, self._world
        regions = list(op.regions)
        if op.name == "stablehlo.if":  # the first region is the one for true, which is 1
            regions.reverse()
        by_branch = []
        for region in regions:
            self._world = world
            by_branch.append([*self._block(self._only_block(region)), self._world])
        types = [*self._types(results), 0]
        *found, self._world = (
            terms.make(terms.head_of("case", (), (type_,)), (operands[0], *branches))
            for type_, branches in zip(types, zip(*by_branch, strict=True), strict=True)
        )
        return found

    def _manual(self, op: ir.Operation, operands: list[int], results: Values) -> list[int]:
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

        inner, world = self._types(block.arguments), self._world
        enter, leave = (
            terms.head_of("effect", (where, axes, meshes), (0,)) for where in ("inside", "outside")
        )
        inside = self._world = terms.intern(enter, (world,))
        self._set(block.arguments, crossing("local", "in_shardings", inner, operands))
        found = self._block(block)
        self._world = world if self._world == inside else terms.intern(leave, (self._world,))
        return crossing("global", "out_shardings", self._types(results), found)


def _has_side_effect(op: ir.Operation) -> bool:
    attributes = op.attributes
    return "has_side_effect" in attributes and ir.BoolAttr(attributes["has_side_effect"]).value


def _names(text: str) -> list[str]:
    return [quoted or plain for quoted, plain in _SYMBOL.findall(text)] if "@" in text else []
