# SPDX-License-Identifier: Apache-2.0
"""Counted loops: what a `stablehlo.while` carries, and scalars as affine functions of the trip."""

from __future__ import annotations

import dataclasses
import functools

from jaxlib.mlir import ir

from hlo_remat.ir.index import Index


@dataclasses.dataclass(frozen=True)
class Affine:
    """`scale * trip + offset`, where `trip` counts the iterations of `loop` from 0.

    A constant is of no loop."""

    scale: int
    offset: int
    loop: int | None = None

    def in_loop(self, loop: int | None) -> bool:
        return self.loop in (None, loop)

    def after(self, inner: Affine) -> Affine:
        """This function of what `inner` gives."""
        scale = self.scale * inner.scale
        return Affine(scale, self.scale * inner.offset + self.offset, inner.loop if scale else None)

    def range(self, trips: int) -> tuple[int, int]:
        """The least and the greatest value in `trips` iterations."""
        ends = self.offset, self.scale * (trips - 1) + self.offset
        return min(ends), max(ends)


IDENTITY = Affine(1, 0)


class Loops:
    """Reads the while ops of a function."""

    def __init__(self, index: Index):
        self.index = index

    def body(self, loop: int) -> int:
        """The number of a loop's body block. Its condition is the block before it."""
        return self.index.nested_blocks[loop][1]

    def arguments(self, loop: int) -> list[int]:
        return self.index.block_arguments[self.body(loop)]

    def yielded(self, loop: int) -> list[int]:
        """What the body passes on, by carry."""
        return self.index.operands[self.index.blocks[self.body(loop)][-1]]

    def counter(self, loop: int) -> int | None:
        """The body's argument that counts the trips from 0."""
        arguments = enumerate(self.arguments(loop))
        return next((v for k, v in arguments if self._counter(loop, k) == Affine(1, 0, loop)), None)

    def loop_of_argument(self, value: int) -> tuple[int, int] | None:
        """The loop and the carry whose body argument `value` is."""
        loop = self.index.home(value)
        if (
            self.index.definer[value] >= 0
            or loop < 0
            or self.index.names[loop] != "stablehlo.while"
        ):
            return None
        arguments = self.arguments(loop)
        return (loop, arguments.index(value)) if value in arguments else None

    def outer(self, value: int) -> int:
        """The value outside that a body argument always equals, through any depth of loops."""
        while True:
            carry = self.loop_of_argument(value)
            if carry is None or self.yielded(carry[0])[carry[1]] != value:
                return value
            value = self.index.operands[carry[0]][carry[1]]

    @functools.cache  # noqa: B019 - lives as long as the index does
    def trips(self, loop: int) -> int | None:
        """How often a loop runs, where it counts from a constant up to a constant."""
        condition = self.index.nested_blocks[loop][0]
        results = self.index.operands[self.index.blocks[condition][-1]]
        compare = self.index.definer[results[0]]
        if compare < 0 or self.index.names[compare] != "stablehlo.compare":
            return None
        if "LT" not in str(self.index.ops[compare].attributes["comparison_direction"]):
            return None
        counter, limit = self.index.operands[compare]
        arguments = self.index.block_arguments[condition]
        bound = self.constant(self.outer_condition(loop, limit))
        if counter not in arguments or bound is None:
            return None
        function = self.affine(self.arguments(loop)[arguments.index(counter)])
        if function is None or function.scale <= 0 or function.loop != loop:
            return None
        return max(0, -(-(bound - function.offset) // function.scale))

    def outer_condition(self, loop: int, value: int) -> int:
        """`value` of a loop's condition, seen from outside where it is carried unchanged."""
        arguments = self.index.block_arguments[self.index.nested_blocks[loop][0]]
        if value not in arguments:
            return value
        return self.outer(self.arguments(loop)[arguments.index(value)])

    @functools.cache  # noqa: B019
    def constant(self, value: int) -> int | None:
        """The value of an integer scalar constant."""
        definer = self.index.definer[value]
        if definer < 0 or self.index.names[definer] != "stablehlo.constant":
            return None
        type_ = self.index.values[value].type
        if not isinstance(type_, ir.RankedTensorType) or type_.rank:
            return None
        if not isinstance(type_.element_type, ir.IntegerType):
            return None
        return int(ir.DenseIntElementsAttr(self.index.ops[definer].attributes["value"])[0])

    @functools.cache  # noqa: B019
    def affine(self, value: int) -> Affine | None:
        """An integer scalar as a function of the trip of a loop around it."""
        value = self.outer(value) if self.loop_of_argument(value) else value
        number = self.constant(value)
        if number is not None:
            return Affine(0, number)
        carry = self.loop_of_argument(value)
        if carry is not None:
            return self._counter(*carry)
        definer = self.index.definer[value]
        if definer < 0 or ir.RankedTensorType(self.index.values[value].type).rank:
            return None
        rule = _RULES.get(self.index.names[definer])
        function = rule(self, definer) if rule else None
        return function if function is not None and self._fits(function, value) else None

    def _fits(self, function: Affine, value: int) -> bool:
        """Whether a value never wraps."""
        element = ir.RankedTensorType(self.index.values[value].type).element_type
        if not isinstance(element, ir.IntegerType):
            return False
        trips = 1 if function.loop is None else self.trips(function.loop)
        if not trips:
            return False
        signed = not element.is_unsigned and element.width > 1
        least = -(1 << (element.width - 1)) if signed else 0
        greatest = (1 << (element.width - signed)) - 1
        low, high = function.range(trips)
        return least <= low and high <= greatest

    def _counter(self, loop: int, carry: int) -> Affine | None:
        argument = self.arguments(loop)[carry]
        step = self.index.definer[self.yielded(loop)[carry]]
        start = self.constant(self.outer(self.index.operands[loop][carry]))
        if step < 0 or start is None or self.index.names[step] != "stablehlo.add":
            return None
        operands = self.index.operands[step]
        others = [v for v in operands if v != argument]
        if len(operands) - len(others) != 1:
            return None
        by = self.constant(self.outer(others[0]))
        return None if by is None else Affine(by, start, loop if by else None)

    def _sum(self, op: int, sign: int = 1) -> Affine | None:
        a, b = (self.affine(v) for v in self.index.operands[op])
        if a is None or b is None or not (a.in_loop(b.loop) or b.in_loop(a.loop)):
            return None
        scale = a.scale + sign * b.scale
        loop = a.loop if a.loop is not None else b.loop
        return Affine(scale, a.offset + sign * b.offset, loop if scale else None)

    def _difference(self, op: int) -> Affine | None:
        return self._sum(op, -1)

    def _product(self, op: int) -> Affine | None:
        a, b = (self.affine(v) for v in self.index.operands[op])
        if a is None or b is None or (a.scale and b.scale):
            return None
        constant, other = (a, b) if not a.scale else (b, a)
        return Affine(constant.offset, 0).after(other)

    def _same(self, op: int) -> Affine | None:
        return self.affine(self.index.operands[op][0])

    def _select(self, op: int) -> Affine | None:
        """JAX wraps negative indices: `select(i < 0, i + n, i)` is `i` where `i` never is."""
        predicate, _, otherwise = self.index.operands[op]
        compare = self.index.definer[predicate]
        function = self.affine(otherwise)
        if function is None or compare < 0 or self.index.names[compare] != "stablehlo.compare":
            return None
        left, right = (self.affine(v) for v in self.index.operands[compare])
        is_less = "LT" in str(self.index.ops[compare].attributes["comparison_direction"])
        if not is_less or left is None or right != Affine(0, 0):
            return None
        trips = 1 if left.loop is None else self.trips(left.loop)
        return function if trips and left.range(trips)[0] >= 0 else None


_RULES = {
    "stablehlo.add": Loops._sum,
    "stablehlo.subtract": Loops._difference,
    "stablehlo.multiply": Loops._product,
    "stablehlo.convert": Loops._same,
    "stablehlo.select": Loops._select,
}
