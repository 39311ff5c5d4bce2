# SPDX-License-Identifier: Apache-2.0
"""Kinds of mutation. Each finds the places in a function where it can be made.

A place is the number of an op, for people, and a function that makes the mutation there. It may
raise, or make an invalid module: that is no mutant. Mutations are made on a copy, one each.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat.ir.index import Index, nested_ops

Place = tuple[int, Callable[[], Any]]
Kind = Callable[["Function"], Iterator[Place]]
KINDS: dict[str, Kind] = {}
# What they make is another function by definition, also where no interpreter can tell.
EFFECTS = {"effect_removed", "effect_twice", "effects_reordered", "effect_moved_out"}
TERMINATORS = ("stablehlo.return", "func.return", "sdy.return")


def kind(find: Kind) -> Kind:
    KINDS[find.__name__] = find
    return find


class Function:
    """A function of a module, and what the kinds ask of it."""

    def __init__(self, op: ir.Operation, module: ir.Operation, is_first: bool):
        self.op, self.module, self.is_first = op, module, is_first
        self.index = Index(op)
        self.names, self.ops = self.index.names, self.index.ops
        self.types = [str(v.type) for v in self.index.values]

    def named(self, *names: str) -> Iterator[int]:
        return (i for i, name in enumerate(self.names) if name.removeprefix("stablehlo.") in names)

    def others(self, value: int, op: int) -> Iterator[int]:
        """Other values of its type that `op` sees: the nearest one, and the first."""
        same = [v for v in self._of_type.get(self.types[value], ()) if v != value]
        seen = (v for v in reversed(same) if self.index.is_visible(v, op))
        nearest = next(seen, None)
        if nearest is not None:
            yield nearest
            first = next(v for v in same if self.index.is_visible(v, op))
            if first != nearest:
                yield first

    @functools.cached_property
    def _of_type(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for v, type_ in enumerate(self.types):
            found.setdefault(type_, []).append(v)
        return found

    def carried(self, loop: int) -> list[tuple[int, int, int, int]]:
        """For each carry of a loop: the value it starts with, its argument in the body, what the
        body yields, and the result."""
        index = self.index
        body = index.nested_blocks[loop][1]
        yielded = index.operands[index.blocks[body][-1]]
        arguments = index.block_arguments[body]
        return list(zip(index.operands[loop], arguments, yielded, index.results[loop], strict=True))

    def last(self, op: int, block: int) -> int:
        return self.index.blocks[self.index.nested_blocks[op][block]][-1]


def same_type(f: Function, values: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of positions, of other values of one type."""
    for j in range(len(values)):
        for k in range(j):
            if values[j] != values[k] and f.types[values[j]] == f.types[values[k]]:
                yield k, j
                break


# -- building ----------------------------------------------------------------------------------


def set_operand(op: ir.Operation, k: int, value: ir.Value) -> None:
    op.operands[k] = value


def swap_operands(op: ir.Operation, j: int, k: int) -> None:
    a, b = op.operands[j], op.operands[k]
    op.operands[j], op.operands[k] = b, a


def replace(old: ir.Value, new: ir.Value) -> None:
    old.replace_all_uses_with(new)


def swap_uses(a: ir.Value, b: ir.Value) -> None:
    uses_a = [(use.owner, use.operand_number) for use in a.uses]
    uses_b = [(use.owner, use.operand_number) for use in b.uses]
    for op, k in uses_a:
        op.operation.operands[k] = b
    for op, k in uses_b:
        op.operation.operands[k] = a


def create(name: str, operands: Sequence[ir.Value], type_: ir.Type, **attributes: Any) -> ir.Value:
    return ir.Operation.create(
        f"stablehlo.{name}", results=[type_], operands=list(operands), attributes=attributes
    ).results[0]


def constant(type_: ir.Type, number: float) -> ir.Value:
    element = ir.RankedTensorType(type_).element_type
    real = f"{float(number):.17e}"  # MLIR wants the point
    if isinstance(element, ir.IntegerType):
        text = str(bool(number)).lower() if element.width == 1 else str(int(number))
    elif isinstance(element, ir.ComplexType):
        text = f"({real}, {real})"
    else:
        text = real
    return stablehlo.constant(ir.Attribute.parse(f"dense<{text}> : {type_}"))


def wrap(op: ir.Operation, k: int, build: Callable[[ir.Value], ir.Value]) -> None:
    """Operand k goes through what `build` makes."""
    with ir.InsertionPoint(op):
        op.operands[k] = build(op.operands[k])


def binary(name: str, number: float) -> Callable[[ir.Value], ir.Value]:
    return lambda v: create(name, [v, constant(v.type, number)], v.type)


def from_constant(name: str, number: float) -> Callable[[ir.Value], ir.Value]:
    return lambda v: create(name, [constant(v.type, number), v], v.type)


def instead(op: ir.Operation, name: str, operands: Sequence[ir.Value], **attributes: Any) -> None:
    """Another op stands for one with one result."""
    with ir.InsertionPoint(op):
        new = create(name, operands, op.results[0].type, **attributes)
    replace(op.results[0], new)
    op.erase()


def is_float(f: Function, value: int) -> bool:
    return bool(re.search(r"(?:bf16|f\d\w*)>?>$", f.types[value]))


def is_integer(f: Function, value: int) -> bool:
    return bool(re.search(r"ui?\d+>$|[x<]i(?!1>)\d+>$", f.types[value]))


# -- operands and results ----------------------------------------------------------------------


@kind
def operands_swapped(f: Function) -> Iterator[Place]:
    for i, operands in enumerate(f.index.operands):
        if f.names[i] not in (*TERMINATORS, "stablehlo.while", "func.call"):
            for j, k in same_type(f, operands):
                yield i, functools.partial(swap_operands, f.ops[i], j, k)


def _operands(f: Function, is_meant: Callable[[int], bool]) -> Iterator[Place]:
    for i, operands in enumerate(f.index.operands):
        if is_meant(i):
            for k, v in enumerate(operands):
                for other in f.others(v, i):
                    yield i, functools.partial(set_operand, f.ops[i], k, f.index.values[other])


@kind
def operand_of_another_op(f: Function) -> Iterator[Place]:
    special = ("optimization_barrier", "while", "composite", "case", "if", "dynamic_slice")
    special = tuple(f"stablehlo.{name}" for name in special)
    apart = (*special, *TERMINATORS, "func.call", "sdy.manual_computation")
    yield from _operands(f, lambda i: f.names[i] not in apart)


@kind
def fence_on_another_value(f: Function) -> Iterator[Place]:
    fences = ("stablehlo.optimization_barrier", "func.call")
    yield from _operands(f, lambda i: f.names[i] in fences)


@kind
def marker_on_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] == "stablehlo.composite")


@kind
def loop_starts_with_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] == "stablehlo.while")


@kind
def block_yields_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] in TERMINATORS and f.index.parent[i] >= 0)


@kind
def function_returns_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] == "func.return")


@kind
def branch_on_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] in ("stablehlo.case", "stablehlo.if"))


@kind
def manual_computation_of_another_value(f: Function) -> Iterator[Place]:
    yield from _operands(f, lambda i: f.names[i] == "sdy.manual_computation")


@kind
def results_swapped(f: Function) -> Iterator[Place]:
    values = f.index.values
    for i, results in enumerate(f.index.results):
        for j, k in same_type(f, results):
            yield i, functools.partial(swap_uses, values[results[j]], values[results[k]])


@kind
def block_arguments_swapped(f: Function) -> Iterator[Place]:
    values = f.index.values
    for b, arguments in enumerate(f.index.block_arguments):
        for j, k in same_type(f, arguments):
            change = functools.partial(swap_uses, values[arguments[j]], values[arguments[k]])
            yield f.index.block_owner[b], change


@kind
def outputs_swapped(f: Function) -> Iterator[Place]:
    for i in f.named("func.return"):
        for j, k in same_type(f, f.index.operands[i]):
            yield i, functools.partial(swap_operands, f.ops[i], j, k)


@kind
def op_skipped(f: Function) -> Iterator[Place]:
    """Its result is its operand."""
    for i, (operands, results) in enumerate(zip(f.index.operands, f.index.results, strict=True)):
        if len(results) == 1 and f.names[i] != "stablehlo.while":
            for v in operands:
                if f.types[v] == f.types[results[0]]:
                    values = f.index.values
                    yield i, functools.partial(replace, values[results[0]], values[v])
                    break


# -- loops -------------------------------------------------------------------------------------


@kind
def carry_is_stale(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        for k, (_, argument, yielded, _) in enumerate(f.carried(loop)):
            if argument != yielded:
                new = f.index.values[argument]
                yield loop, functools.partial(set_operand, f.ops[f.last(loop, 1)], k, new)


@kind
def carry_is_its_start(f: Function) -> Iterator[Place]:
    """The body reads what the loop started with."""
    for loop in f.named("while"):
        for start, argument, _, _ in f.carried(loop):
            values = f.index.values
            yield loop, functools.partial(replace, values[argument], values[start])


@kind
def loop_result_is_its_start(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        for start, _, _, result in f.carried(loop):
            values = f.index.values
            yield loop, functools.partial(replace, values[result], values[start])


@kind
def starts_swapped(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        for j, k in same_type(f, f.index.operands[loop]):
            yield loop, functools.partial(swap_operands, f.ops[loop], j, k)


@kind
def yields_swapped(f: Function) -> Iterator[Place]:
    for i, name in enumerate(f.names):
        if name in TERMINATORS and f.index.parent[i] >= 0:
            for j, k in same_type(f, f.index.operands[i]):
                yield i, functools.partial(swap_operands, f.ops[i], j, k)


@kind
def loop_bound(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        condition, _ = f.index.nested_blocks[loop]
        for i in f.index.blocks[condition]:
            if f.names[i] == "stablehlo.compare":
                for k in range(2):
                    for change in (1, -1):
                        yield i, functools.partial(wrap, f.ops[i], k, binary("add", change))


@kind
def loop_comparison(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        condition, _ = f.index.nested_blocks[loop]
        for i in f.index.blocks[condition]:
            if f.names[i] == "stablehlo.compare":
                yield from _other_attributes(f, i, "comparison_direction")


@kind
def loop_start(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        for k, v in enumerate(f.index.operands[loop]):
            if is_integer(f, v):
                for change in (1, -1):
                    yield loop, functools.partial(wrap, f.ops[loop], k, binary("add", change))


@kind
def loop_step(f: Function) -> Iterator[Place]:
    for loop in f.named("while"):
        last = f.last(loop, 1)
        for k, v in enumerate(f.index.operands[last]):
            if is_integer(f, v):
                for change in (1, 2):
                    yield last, functools.partial(wrap, f.ops[last], k, binary("add", change))


def _indices(f: Function) -> Iterator[tuple[int, int]]:
    """The operands of ops that are indices."""
    for i in f.named("dynamic_slice", "dynamic_update_slice"):
        first = 1 if f.names[i] == "stablehlo.dynamic_slice" else 2
        for k in range(first, len(f.index.operands[i])):
            yield i, k


@kind
def stack_index_off_by_one(f: Function) -> Iterator[Place]:
    for i, k in _indices(f):
        for change in (1, -1):
            yield i, functools.partial(wrap, f.ops[i], k, binary("add", change))


@kind
def stack_index_of_another_value(f: Function) -> Iterator[Place]:
    for i, k in _indices(f):
        for other in f.others(f.index.operands[i][k], i):
            yield i, functools.partial(set_operand, f.ops[i], k, f.index.values[other])


@kind
def stack_read_or_written_backwards(f: Function) -> Iterator[Place]:
    for i, k in _indices(f):
        first = 1 if f.names[i] == "stablehlo.dynamic_slice" else 2
        rows = ir.RankedTensorType(f.ops[i].operands[0].type).shape[k - first]
        if rows > 1:
            yield i, functools.partial(wrap, f.ops[i], k, from_constant("subtract", rows - 1))


@kind
def index_scaled(f: Function) -> Iterator[Place]:
    for i, k in _indices(f):
        yield i, functools.partial(wrap, f.ops[i], k, binary("multiply", 2))


@kind
def index_wraps(f: Function) -> Iterator[Place]:
    """Through two bits: the same up to 1, and -2 after it."""

    def narrow(v: ir.Value) -> ir.Value:
        shape = ir.RankedTensorType(v.type).shape
        two = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(2))
        return create("convert", [create("convert", [v], two)], v.type)

    for i, k in _indices(f):
        yield i, functools.partial(wrap, f.ops[i], k, narrow)


@kind
def update_dropped(f: Function) -> Iterator[Place]:
    for i in f.named("dynamic_update_slice", "scatter"):
        operands, results = f.index.operands[i], f.index.results[i]
        values = f.index.values
        yield i, functools.partial(replace, values[results[0]], values[operands[0]])


# -- branches ----------------------------------------------------------------------------------


def _swap_blocks(op: ir.Operation, j: int, k: int) -> None:
    a, b = op.regions[j].blocks[0], op.regions[k].blocks[0]
    a.append_to(op.regions[k])
    b.append_to(op.regions[j])


@kind
def branches_swapped(f: Function) -> Iterator[Place]:
    for i in f.named("case", "if"):
        for k in range(1, len(f.ops[i].regions)):
            yield i, functools.partial(_swap_blocks, f.ops[i], k - 1, k)


@kind
def predicate_negated(f: Function) -> Iterator[Place]:
    for i in f.named("case", "if", "select"):
        v = f.index.operands[i][0]
        if f.types[v].endswith("i1>"):
            change = lambda v: create("not", [v], v.type)  # noqa: E731
        else:
            change = from_constant("subtract", 1)
        yield i, functools.partial(wrap, f.ops[i], 0, change)


@kind
def predicate_constant(f: Function) -> Iterator[Place]:
    for i in f.named("case", "if", "select"):
        for number in (0, 1):
            change = lambda v, number=number: constant(v.type, number)  # noqa: E731
            yield i, functools.partial(wrap, f.ops[i], 0, change)


@kind
def selection_swapped(f: Function) -> Iterator[Place]:
    for i in f.named("select"):
        yield i, functools.partial(swap_operands, f.ops[i], 1, 2)


# -- arithmetic --------------------------------------------------------------------------------

OTHER_BINARY = {
    "add": ["subtract", "multiply", "maximum"],
    "subtract": ["add"],
    "multiply": ["divide", "add"],
    "divide": ["multiply"],
    "maximum": ["minimum"],
    "minimum": ["maximum"],
    "power": ["multiply"],
    "remainder": ["subtract"],
    "and": ["or", "xor"],
    "or": ["and", "xor"],
    "xor": ["or"],
    "shift_right_logical": ["shift_right_arithmetic", "shift_left"],
    "shift_left": ["shift_right_logical"],
    "atan2": ["divide"],
}
OTHER_UNARY = {
    "sine": "cosine",
    "cosine": "sine",
    "tanh": "logistic",
    "logistic": "tanh",
    "exponential": "exponential_minus_one",
    "exponential_minus_one": "exponential",
    "log": "log_plus_one",
    "log_plus_one": "log",
    "negate": "abs",
    "abs": "negate",
    "sqrt": "rsqrt",
    "rsqrt": "sqrt",
    "floor": "ceil",
    "ceil": "floor",
    "sign": "negate",
    "not": "negate",
    "real": "imag",
    "imag": "real",
}


def _operation(f: Function, i: int, name: str) -> Place:
    return i, lambda: instead(f.ops[i], name, list(f.ops[i].operands))


@kind
def another_binary_op(f: Function) -> Iterator[Place]:
    for name, others in OTHER_BINARY.items():
        for i in f.named(name):
            for other in others:
                yield _operation(f, i, other)


@kind
def another_unary_op(f: Function) -> Iterator[Place]:
    for name, other in OTHER_UNARY.items():
        for i in f.named(name):
            yield _operation(f, i, other)


@kind
def body_of_a_reduction(f: Function) -> Iterator[Place]:
    holders = ("reduce", "scatter", "reduce_window", "select_and_scatter", "sort", "all_reduce")
    for i in range(len(f.ops)):
        parent = f.index.parent[i]
        if parent >= 0 and f.names[parent].removeprefix("stablehlo.") in holders:
            name = f.names[i].removeprefix("stablehlo.")
            for other in OTHER_BINARY.get(name, ()):
                yield _operation(f, i, other)
            if f.names[i] == "stablehlo.compare":
                yield from _other_attributes(f, i, "comparison_direction", "compare_type")
            if f.names[i] == "stablehlo.return":
                for v in f.index.block_arguments[f.index.block[i]]:
                    if f.types[v] == f.types[f.index.operands[i][0]]:
                        new = f.index.values[v]
                        yield i, functools.partial(set_operand, f.ops[i], 0, new)


def _reassociate(outer: ir.Operation, inner: ir.Operation, name: str) -> None:
    a, b = inner.operands
    c = outer.operands[1]
    with ir.InsertionPoint(outer):
        instead(outer, name, [a, create(name, [b, c], b.type)])


@kind
def floats_reassociated(f: Function) -> Iterator[Place]:
    """(a + b) + c as a + (b + c)."""
    for name in ("add", "multiply"):
        for i in f.named(name):
            inner = f.index.definer[f.index.operands[i][0]]
            is_same = inner >= 0 and f.names[inner] == f.names[i]
            if is_same and is_float(f, f.index.results[i][0]):
                yield i, functools.partial(_reassociate, f.ops[i], f.ops[inner], name)


@kind
def cotangent_dropped(f: Function) -> Iterator[Place]:
    for i in f.named("add"):
        for v in f.index.operands[i]:
            values = f.index.values
            yield i, functools.partial(replace, values[f.index.results[i][0]], values[v])


@kind
def cotangent_twice(f: Function) -> Iterator[Place]:
    for i in f.named("add"):
        a, b = (f.index.values[v] for v in f.index.operands[i])
        yield i, functools.partial(set_operand, f.ops[i], 0, b)
        yield i, functools.partial(set_operand, f.ops[i], 1, a)


FLOAT_IDENTITIES = {
    "zero_added": binary("add", 0.0),  # not for -0
    "one_multiplied": binary("multiply", 1.0),  # for all but signalling NaN
    "negated": lambda v: create("negate", [v], v.type),
    "times_zero_added": lambda v: create(  # not for NaN and infinity
        "add", [v, create("multiply", [v, constant(v.type, 0.0)], v.type)], v.type
    ),
    "bounded": binary("minimum", 3.0e38),  # not for infinity
}


def _on_floats(change: Callable[[ir.Value], ir.Value]) -> Kind:
    def find(f: Function) -> Iterator[Place]:
        for i, operands in enumerate(f.index.operands):
            for k, v in enumerate(operands):
                if is_float(f, v) and "complex" not in f.types[v]:
                    yield i, functools.partial(wrap, f.ops[i], k, change)

    return find


def _rounded(v: ir.Value) -> ir.Value:
    tensor = ir.RankedTensorType(v.type)
    half = ir.RankedTensorType.get(tensor.shape, ir.BF16Type.get())
    return create("convert", [create("convert", [v], half)], v.type)


KINDS |= {f"float_{name}": _on_floats(change) for name, change in FLOAT_IDENTITIES.items()}
KINDS["float_rounded"] = _on_floats(_rounded)


@kind
def conversions_dropped(f: Function) -> Iterator[Place]:
    """To another type and back."""
    for i in f.named("convert", "bitcast_convert"):
        inner = f.index.definer[f.index.operands[i][0]]
        if inner >= 0 and f.names[inner] in ("stablehlo.convert", "stablehlo.bitcast_convert"):
            values = f.index.values
            v, result = f.index.operands[inner][0], f.index.results[i][0]
            if f.types[v] == f.types[result]:
                yield i, functools.partial(replace, values[result], values[v])


@kind
def conversion_of_bits(f: Function) -> Iterator[Place]:
    for name, other in (("convert", "bitcast_convert"), ("bitcast_convert", "convert")):
        for i in f.named(name):
            yield _operation(f, i, other)


@kind
def finiteness_taken_for_granted(f: Function) -> Iterator[Place]:
    """`is_finite(x)` and `x == x` as true, `x != x` as false."""
    for i in f.named("is_finite", "compare"):
        operands = f.index.operands[i]
        if len(set(operands)) > 1:
            continue
        text = str(f.ops[i].attributes["comparison_direction"]) if len(operands) > 1 else ""

        def change(i: int = i, number: int = "NE" not in text) -> None:
            op = f.ops[i]
            with ir.InsertionPoint(op):
                replace(op.results[0], constant(op.results[0].type, number))

        yield i, change


# -- constants and attributes ------------------------------------------------------------------


def _is_complex(f: Function, constant: int) -> bool:
    return "complex" in f.types[f.index.results[constant][0]]  # the bindings don't read those


def _change_constant(op: ir.Operation, position: int | None) -> None:
    """Another element, or another splat where `position` is None."""
    type_ = ir.RankedTensorType(op.results[0].type)
    element = type_.element_type
    if isinstance(element, ir.ComplexType) or str(element) == "bf16":
        text = "(7.0, 7.0)" if isinstance(element, ir.ComplexType) else "7.0"
        op.attributes["value"] = ir.Attribute.parse(f"dense<{text}> : {type_}")
        return
    array = np.array(ir.DenseElementsAttr(op.attributes["value"]))
    where = ... if position is None else np.unravel_index(position, array.shape)
    array[where] = ~array[where] if array.dtype == bool else array[where] + 1
    op.attributes["value"] = ir.DenseElementsAttr.get(array)


@kind
def constant_changed(f: Function) -> Iterator[Place]:
    for i in f.named("constant"):
        yield i, functools.partial(_change_constant, f.ops[i], None)


@kind
def element_of_a_constant_changed(f: Function) -> Iterator[Place]:
    for i in f.named("constant"):
        size = int(np.prod(ir.RankedTensorType(f.ops[i].results[0].type).shape))
        for position in {0, size - 1} if size > 1 else ():
            yield i, functools.partial(_change_constant, f.ops[i], position)


@kind
def sign_of_zero_changed(f: Function) -> Iterator[Place]:
    for i in f.named("constant"):
        text = "" if _is_complex(f, i) else str(f.ops[i].attributes["value"])
        if "dense<0.0" in text:

            def change(i: int = i, text: str = text) -> None:
                new = text.replace("dense<0.0", "dense<-0.0")
                f.ops[i].attributes["value"] = ir.Attribute.parse(new)

            yield i, change


WORDS = [
    ["EQ", "NE", "LT", "LE", "GT", "GE"],
    ["FLOAT", "TOTALORDER"],
    ["SIGNED", "UNSIGNED"],
    ["DEFAULT", "HIGH", "HIGHEST"],
    ["DEFAULT", "THREE_FRY", "PHILOX"],
    ["FFT", "IFFT", "RFFT", "IRFFT"],
    ["TRANSPOSE", "NO_TRANSPOSE", "ADJOINT"],
    ["UNIFORM", "NORMAL"],
    ["true", "false"],
]


def other_texts(text: str) -> Iterator[str]:
    """An attribute's text with one word or number changed, or two of a list swapped."""
    for match in re.finditer(r"(?<![\w.%@\"-])\d+(?![\w.\"])", text):
        start, end = match.span()
        for number in (int(match[0]) + 1, int(match[0]) - 1):
            if number >= 0:
                yield text[:start] + str(number) + text[end:]
    for match in re.finditer(r"(\w+), (\w+)", text):
        if match[1] != match[2]:
            start, end = match.span()
            yield f"{text[:start]}{match[2]}, {match[1]}{text[end:]}"
    for words in WORDS:
        for match in re.finditer(rf"\b(?:{'|'.join(words)})\b", text):
            start, end = match.span()
            for word in words:
                if word != match[0]:
                    yield text[:start] + word + text[end:]


def _set_attribute(op: ir.Operation, name: str, text: str) -> None:
    op.attributes[name] = ir.Attribute.parse(text)


def _other_attributes(f: Function, i: int, *names: str) -> Iterator[Place]:
    attributes = f.ops[i].attributes
    for name in names:
        if name in attributes:
            for text in other_texts(str(attributes[name])):
                yield i, functools.partial(_set_attribute, f.ops[i], name, text)


ATTRIBUTES = {
    "comparison": ["comparison_direction", "compare_type"],
    "dimension_numbers": [
        "dot_dimension_numbers",
        "dimension_numbers",
        "scatter_dimension_numbers",
    ],
    "dimensions": [
        "permutation",
        "broadcast_dimensions",
        "iota_dimension",
        "dimensions",
        "dimension",
    ],
    "bounds": [
        "start_indices",
        "limit_indices",
        "strides",
        "slice_sizes",
        "window_dimensions",
        "window_strides",
    ],
    "padding": ["edge_padding_low", "edge_padding_high", "interior_padding", "padding"],
    "precision": ["precision_config", "algorithm", "exponent_bits", "mantissa_bits"],
    "fft": ["fft_type", "fft_length"],
    "flags": [
        "indices_are_sorted",
        "unique_indices",
        "is_stable",
        "lower",
        "left_side",
        "unit_diagonal",
        "transpose_a",
        "result_accuracy",
    ],
    "random_bits": ["rng_algorithm", "rng_distribution"],
    "custom_call": [
        "call_target_name",
        "backend_config",
        "has_side_effect",
        "api_version",
        "mhlo.backend_config",
        "operand_layouts",
        "result_layouts",
        "output_operand_aliases",
    ],
    "collective": ["replica_groups", "channel_handle", "use_global_device_ids"],
    "manual_computation": ["in_shardings", "out_shardings", "manual_axes"],
    "sharding": ["sharding", "sdy.sharding", "mhlo.sharding"],
}


def _attributes(names: Sequence[str]) -> Kind:
    def find(f: Function) -> Iterator[Place]:
        for i in range(len(f.ops)):
            if f.names[i] != "stablehlo.constant":
                yield from _other_attributes(f, i, *names)

    return find


KINDS |= {f"attribute_{name}": _attributes(names) for name, names in ATTRIBUTES.items()}


def _move(op: ir.Operation, position: int, by: int, names: Sequence[str]) -> None:
    """Adds `by` to an element of the first attribute, and what keeps the type to the second."""
    for name, change in zip(names, (by, by if names[1] == "limit_indices" else -by), strict=True):
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        numbers[position] += change
        op.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)


@kind
def slice_or_padding_moved(f: Function) -> Iterator[Place]:
    bounds, padding = ("start_indices", "limit_indices"), ("edge_padding_low", "edge_padding_high")
    for i in f.named("slice", "pad"):
        names = bounds if f.names[i] == "stablehlo.slice" else padding
        for position in range(len(ir.DenseI64ArrayAttr(f.ops[i].attributes[names[0]]))):
            for by in (1, -1):
                yield i, functools.partial(_move, f.ops[i], position, by, names)


@kind
def target_of_a_custom_call(f: Function) -> Iterator[Place]:
    for i in f.named("custom_call"):
        yield i, functools.partial(_set_attribute, f.ops[i], "call_target_name", '"another"')


@kind
def axes_of_a_sharding(f: Function) -> Iterator[Place]:
    """An axis goes, or is another one."""
    for i in range(len(f.ops)):
        attributes = f.ops[i].attributes
        for name in ("in_shardings", "out_shardings", "sharding", "manual_axes"):
            if name in attributes and ("sdy" in (text := str(attributes[name]))):
                for match in re.finditer(r'"(\w+)"', text):
                    start, end = match.span()
                    for new in ("", '"a"', '"b"'):
                        changed = text[:start] + new + text[end:]
                        changed = changed.replace("{, ", "{").replace(", }", "}")
                        if changed != text:
                            yield i, functools.partial(_set_attribute, f.ops[i], name, changed)


@kind
def signature(f: Function) -> Iterator[Place]:
    """An attribute of a function, its arguments or results."""
    attributes = f.op.attributes
    for name in attributes:
        if name not in ("sym_name", "function_type", "sym_visibility"):
            for text in other_texts(str(attributes[name])):
                yield -1, functools.partial(_set_attribute, f.op, name, text)


@kind
def random_state(f: Function) -> Iterator[Place]:
    for i in f.named("rng_bit_generator"):
        yield i, functools.partial(wrap, f.ops[i], 0, binary("add", 1))


# -- functions and effects ---------------------------------------------------------------------


def _functions(f: Function) -> dict[str, ir.Operation]:
    return {
        ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
        for view in f.module.regions[0].blocks[0].operations
        if view.operation.name == "func.func"
    }


@kind
def another_callee(f: Function) -> Iterator[Place]:
    functions = _functions(f)
    for i in f.named("func.call", "composite"):
        attribute = "callee" if f.names[i] == "func.call" else "decomposition"
        name = ir.FlatSymbolRefAttr(f.ops[i].attributes[attribute]).value
        for other, function in functions.items():
            types = [g.attributes["function_type"] for g in (function, functions[name])]
            if other != name and types[0] == types[1]:
                text = f'@"{other}"'
                yield i, functools.partial(_set_attribute, f.ops[i], attribute, text)


def _is_identity(f: Function) -> bool:
    return len(f.ops) == 1 and bool(f.index.operands[0])


@kind
def identity_returns_another_argument(f: Function) -> Iterator[Place]:
    if _is_identity(f):
        yield from _operands(f, lambda i: True)


@kind
def identity_computes(f: Function) -> Iterator[Place]:
    if _is_identity(f):
        for k, v in enumerate(f.index.operands[0]):
            if is_float(f, v):
                name = "negate"
            elif is_integer(f, v):
                name = "not"
            else:
                continue
            change = lambda v, name=name: create(name, [v], v.type)  # noqa: E731
            yield 0, functools.partial(wrap, f.ops[0], k, change)


def _called(op: ir.Operation) -> list[str]:
    names = ("callee", "decomposition")  # a custom call says itself whether it has effects
    text = " ".join(str(op.attributes[name]) for name in names if name in op.attributes)
    return re.findall(r"@([\w.]+)", text)


def _effects(f: Function) -> list[int]:
    """Ops with effects, their own or of functions that they call."""
    functions = _functions(f)

    def has_effect(op: ir.Operation) -> bool:
        if op.name == "stablehlo.custom_call" and "has_side_effect = true" in str(op):
            return True
        return op.name == "stablehlo.rng" or any(
            has_effect(nested) for name in _called(op) for nested in nested_ops(functions[name])
        )

    return [
        i for i in f.named("func.call", "composite", "custom_call", "rng") if has_effect(f.ops[i])
    ]


def _remove(op: ir.Operation) -> None:
    with ir.InsertionPoint(op):
        for result in op.results:
            same = [v for v in op.operands if v.type == result.type]
            replace(result, same[0] if same else constant(result.type, 0))
    op.erase()


def _twice(op: ir.Operation) -> None:
    with ir.InsertionPoint(op):
        op.clone()


@kind
def effect_removed(f: Function) -> Iterator[Place]:
    for i in _effects(f):
        yield i, functools.partial(_remove, f.ops[i])


@kind
def effect_twice(f: Function) -> Iterator[Place]:
    for i in _effects(f):
        yield i, functools.partial(_twice, f.ops[i])


@kind
def effects_reordered(f: Function) -> Iterator[Place]:
    effects = _effects(f)
    for i, j in itertools.pairwise(effects):
        if f.index.block[i] == f.index.block[j]:
            yield j, functools.partial(f.ops[j].move_before, f.ops[i])


@kind
def effect_moved_out(f: Function) -> Iterator[Place]:
    """Of a loop, a branch or a manual computation."""
    for i in _effects(f):
        parent = f.index.parent[i]
        if parent >= 0:

            def move(i: int = i, parent: int = parent) -> None:
                for v in f.index.operands[i]:
                    definer = f.index.definer[v]
                    if definer > parent and f.names[definer] == "stablehlo.constant":
                        f.ops[definer].move_before(f.ops[parent])
                f.ops[i].move_before(f.ops[parent])

            yield i, move


@kind
def mesh_changed(f: Function) -> Iterator[Place]:
    if f.is_first:
        for view in f.module.regions[0].blocks[0].operations:
            if view.operation.name == "sdy.mesh":
                for text in other_texts(str(view.operation.attributes["mesh"])):
                    yield -1, functools.partial(_set_attribute, view.operation, "mesh", text)
