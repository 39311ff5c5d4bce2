# SPDX-License-Identifier: Apache-2.0
"""Wrong rewrites, by the thousand: each must be refused by the proof, or compute the same.

`python test/python/validation/mutants.py` makes all of them and prints how many of each kind the
proof refuses, and what the reference interpreter says of the rest.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import hlo_remat
from hlo_remat import module_io
from hlo_remat.errors import HloRematError
from hlo_remat.ir.index import Index, nested_ops
from hlo_remat.passes.default import default_pipeline
from hlo_remat.passes.lower_recompute import LowerRecompute
from hlo_remat.passes.pipeline import pipeline_of
from hlo_remat.testing.programs import programs
from hlo_remat.validation.verify import verify_operations

LIT = pathlib.Path(__file__).parents[2] / "lit" / "passes"
OTHERS = {  # ops of the same operands and results
    "stablehlo.add": "stablehlo.subtract",
    "stablehlo.and": "stablehlo.or",
    "stablehlo.cosine": "stablehlo.sine",
    "stablehlo.divide": "stablehlo.multiply",
    "stablehlo.exponential": "stablehlo.tanh",
    "stablehlo.maximum": "stablehlo.minimum",
    "stablehlo.minimum": "stablehlo.maximum",
    "stablehlo.multiply": "stablehlo.add",
    "stablehlo.negate": "stablehlo.abs",
    "stablehlo.sine": "stablehlo.cosine",
    "stablehlo.subtract": "stablehlo.add",
    "stablehlo.tanh": "stablehlo.logistic",
}
COMMUTATIVE = ("stablehlo.add", "stablehlo.multiply", "stablehlo.maximum", "stablehlo.minimum")
Mutation = tuple[str, Callable[[], None]]


# -- kinds -------------------------------------------------------------------------------------


class Sites:
    """All mutations of a module, in an order that depends on the module alone."""

    def __init__(self, module: ir.Module):
        self.module = module

    def __iter__(self) -> Iterator[Mutation]:
        functions = [view.operation for view in self.module.body.operations]
        for function in functions:
            if function.name != "func.func" or not len(function.regions[0].blocks):
                continue
            index = Index(function)
            for i, op in enumerate(index.ops):
                for kind in (self.operands, self.ops, self.attributes, self.loops):
                    yield from kind(index, i, op)
        yield from self.callees(functions)

    def operands(self, index: Index, i: int, op: ir.Operation) -> Iterator[Mutation]:
        values = index.operands[i]
        for k, v in enumerate(values):
            other = self._other(index, i, v)
            if other is not None:
                yield f"operand of {_role(op)}", _setter(op, k, index.values[other])
        for a, b in itertools.combinations(range(min(len(values), 4)), 2):
            is_same = values[a] == values[b] or op.name in COMMUTATIVE
            if not is_same and index.values[values[a]].type == index.values[values[b]].type:
                yield f"operands swapped of {_role(op)}", _swap(op, a, b)

    def _other(self, index: Index, i: int, value: int) -> int | None:
        """The last value before `i` that has the type of `value` and can be used there."""
        type_ = index.values[value].type
        for other in range(value - 1, max(-1, value - 40), -1):
            if index.values[other].type == type_ and index.is_visible(other, i):
                return other
        return None

    def ops(self, index: Index, i: int, op: ir.Operation) -> Iterator[Mutation]:
        results = list(op.results)
        for a, b in itertools.pairwise(results):
            if a.type == b.type:
                yield "results swapped", lambda a=a, b=b: _swap_uses(a, b)
        if op.name in OTHERS:
            yield "another op", lambda: _rename(op, OTHERS[op.name])
        if op.name == "stablehlo.constant":
            yield "another constant", lambda: _change_constant(op)
        if op.name == "stablehlo.add":
            yield "cotangent dropped", lambda: results[0].replace_all_uses_with(op.operands[0])
            yield "cotangent doubled", _setter(op, 1, op.operands[0])
            first = index.definer[index.operands[i][0]]
            if first >= 0 and index.names[first] == "stablehlo.add":
                yield "sum reassociated", lambda: _reassociate(op, index.ops[first])
        if op.name == "stablehlo.dynamic_update_slice":
            yield "update dropped", lambda: results[0].replace_all_uses_with(op.operands[0])
        if op.name in ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"):
            at = 1 if op.name == "stablehlo.dynamic_slice" else 2
            if len(op.operands) > at:
                yield "index off by one", lambda: _shift(op, at)
        if op.name in ("stablehlo.case", "stablehlo.if"):
            yield "always one branch", lambda: _fix_predicate(op)
            yield "branches swapped", lambda: _swap_branches(op)
        if op.name == "stablehlo.custom_call":
            yield "effect twice", lambda: _twice(op)
            if not any(len(list(r.uses)) for r in results):
                yield "effect dropped", op.erase
        if len(results) == 1 and str(results[0].type).endswith("f32>") and i % 3 == 0:
            yield "rounded", lambda: _round(op)

    def attributes(self, index: Index, i: int, op: ir.Operation) -> Iterator[Mutation]:
        if op.name == "stablehlo.constant":
            return
        names = list(op.attributes)
        for name in names:
            try:
                changed = list(_changed(op.attributes[name]))
            except TypeError:  # not readable in Python
                continue
            for attribute in changed:
                kind = f"{_role(op)} with another {name}"
                yield kind, lambda name=name, a=attribute: op.attributes.__setitem__(name, a)

    def loops(self, index: Index, i: int, op: ir.Operation) -> Iterator[Mutation]:
        if op.name != "stablehlo.while":
            return
        body = index.nested_blocks[i][1]
        last = index.ops[index.blocks[body][-1]]
        arguments = [index.values[v] for v in index.block_arguments[body]]
        for k, argument in enumerate(arguments):
            if last.operands[k] != argument:
                yield "stale carry", _setter(last, k, argument)

    def callees(self, functions: list[ir.Operation]) -> Iterator[Mutation]:
        alike = collections.defaultdict(list)
        for f in functions:
            if f.name == "func.func":
                name = ir.StringAttr(f.attributes["sym_name"]).value
                alike[str(f.attributes["function_type"])].append(name)
        others = {n: [o for o in names if o != n] for names in alike.values() for n in names}
        for op in nested_ops(self.module.operation):
            if op.name == "func.call":
                for other in others[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]:
                    symbol = ir.FlatSymbolRefAttr.get(other)
                    yield (
                        "another callee",
                        lambda op=op, s=symbol: op.attributes.__setitem__("callee", s),
                    )


def _role(op: ir.Operation) -> str:
    fences = ("stablehlo.optimization_barrier", "func.call")
    if op.name in fences:
        return "a fence or call"
    if op.name.endswith("return"):
        return "a terminator"
    if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
        return op.name.split(".")[1]
    if op.name.startswith("stablehlo.dynamic"):
        return "a row"
    return "an op"


def _setter(op: ir.Operation, k: int, value: ir.Value) -> Callable[[], None]:
    return lambda: op.operands.__setitem__(k, value)


def _swap(op: ir.Operation, a: int, b: int) -> Callable[[], None]:
    def apply() -> None:
        first, second = op.operands[a], op.operands[b]
        op.operands[a], op.operands[b] = second, first

    return apply


def _swap_uses(a: ir.Value, b: ir.Value) -> None:
    uses = [[(u.owner.operation, u.operand_number) for u in v.uses] for v in (a, b)]
    for used, other in zip(uses, (b, a), strict=True):
        for op, k in used:
            op.operands[k] = other


def _rename(op: ir.Operation, name: str) -> None:
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(name, [r.type for r in op.results], list(op.operands))
    op.results[0].replace_all_uses_with(new.results[0])


def _change_constant(op: ir.Operation) -> None:
    elements = np.array(ir.DenseElementsAttr(op.attributes["value"]))
    changed = ~elements if elements.dtype == bool else elements + 1
    op.attributes["value"] = ir.DenseElementsAttr.get(
        np.ascontiguousarray(changed), type=op.results[0].type
    )


def _reassociate(outer: ir.Operation, inner: ir.Operation) -> None:
    with ir.InsertionPoint(outer), outer.location:
        right = stablehlo.add(inner.operands[1], outer.operands[1])
    outer.operands[0], outer.operands[1] = inner.operands[0], right


def _shift(op: ir.Operation, at: int) -> None:
    type_ = op.operands[at].type
    one = ir.DenseElementsAttr.get_splat(
        type_, ir.IntegerAttr.get(ir.RankedTensorType(type_).element_type, 1)
    )
    with ir.InsertionPoint(op), op.location:
        op.operands[at] = stablehlo.add(op.operands[at], stablehlo.constant(one))


def _fix_predicate(op: ir.Operation) -> None:
    type_ = op.operands[0].type
    zero = ir.IntegerAttr.get(ir.RankedTensorType(type_).element_type, 0)
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = stablehlo.constant(ir.DenseElementsAttr.get_splat(type_, zero))


def _swap_branches(op: ir.Operation) -> None:
    first, second = op.regions[0].blocks[0], op.regions[1].blocks[0]
    second.append_to(op.regions[0])
    first.append_to(op.regions[1])


def _twice(op: ir.Operation) -> None:
    with ir.InsertionPoint(op):
        op.clone()


def _round(op: ir.Operation) -> None:
    (result,) = op.results
    uses = [(u.owner.operation, u.operand_number) for u in result.uses]
    with ir.InsertionPoint.after(op), op.location:
        rounded = stablehlo.reduce_precision(result, 8, 7)
    for user, k in uses:
        user.operands[k] = rounded


def _changed(attribute: ir.Attribute) -> Iterator[ir.Attribute]:
    """Attributes like one, but for one thing."""
    text = str(attribute)
    if isinstance(attribute, ir.BoolAttr):
        yield ir.BoolAttr.get(not attribute.value)
    elif isinstance(attribute, ir.IntegerAttr):
        yield ir.IntegerAttr.get(attribute.type, attribute.value + 1)
        yield ir.IntegerAttr.get(attribute.type, attribute.value - 1)
    elif isinstance(attribute, ir.DenseI64ArrayAttr):
        numbers = list(attribute)
        if len(numbers) > 1:
            yield ir.DenseI64ArrayAttr.get(numbers[::-1])
        for k in range(len(numbers)):
            for by in (-1, 1):
                yield ir.DenseI64ArrayAttr.get([n + by * (j == k) for j, n in enumerate(numbers)])
    elif "comparison_direction" in text:
        for direction in ("LE", "GT", "EQ", "GE", "LT", "NE"):
            if direction not in text:
                yield ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    elif "precision DEFAULT" in text:
        yield ir.Attribute.parse(text.replace("DEFAULT", "HIGHEST", 1))
    elif "contracting_dimensions = [0]" in text or "contracting_dimensions = [1]" in text:
        for a, b in (("[0]", "[1]"), ("[1]", "[0]")):
            yield ir.Attribute.parse(
                text.replace(f"contracting_dimensions = {a}", f"contracting_dimensions = {b}", 1)
            )
    elif "sdy.sharding" in text and '{"' in text:
        yield ir.Attribute.parse(re.sub(r'{"[^"]*"}', "{}", text, count=1))


# -- corpus ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pair:
    """A module and what the pipeline makes of it, in text."""

    name: str
    before: str
    after: str


EFFECTS = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  stablehlo.custom_call @first(%x) {has_side_effect = true} : (tensor<2xf32>) -> ()
  %y = stablehlo.sine %x : tensor<2xf32>
  stablehlo.custom_call @second(%y) {has_side_effect = true} : (tensor<2xf32>) -> ()
  %z = stablehlo.add %y, %x : tensor<2xf32>
  return %z : tensor<2xf32>
}
"""


def corpus(num_programs: int) -> Iterator[Pair]:
    texts = {"effects": EFFECTS}
    for path in sorted(LIT.glob("*.mlir")):
        if "invalid" not in path.name:
            for k, text in enumerate(path.read_text().split("// -----\n")):
                texts[f"{path.stem} {k}"] = _with_main(text)
    for k, program in enumerate(_programs(num_programs)):
        lowered = jax.jit(program.function(hlo_remat.checkpoint)).lower(*program.arguments())
        texts[f"program {k}"] = lowered.as_text()
    strategies: Any = itertools.cycle(["auto", "case", "while", "optimization-barrier"])
    for name, text in texts.items():
        try:
            module = module_io.parse(text)
            lower = LowerRecompute(strategy=next(strategies))
            for element in default_pipeline(lower=lower).elements:
                pipeline_of(element).run(module)
        except HloRematError:
            continue
        yield Pair(name, text, str(module))


def _with_main(text: str) -> str:
    """The interpreter runs `main`: the first public function, if none is called so."""
    first = re.search(r"func\.func (?:public )?@(\w+)", text)
    if first is None or re.search(r"@main\b", text):
        return text
    return re.sub(rf"@{first[1]}\b", "@main", text)


def _programs(count: int) -> list[Any]:
    found: list[Any] = []

    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs(), st.data())
    def collect(program: Any, data: Any) -> None:
        found.append(program)

    collect()
    return found


# -- trying them -------------------------------------------------------------------------------


@dataclasses.dataclass
class Tally:
    """Of one kind: how many mutants were refused by the proof, how many of the others are the same
    function for all inputs tried, how many can't be run; and those that are another function."""

    refused: int = 0
    same: int = 0
    unknown: int = 0
    holes: list[str] = dataclasses.field(default_factory=list)


def try_mutants(pairs: Iterator[Pair], per_pair: int | None, seed: int = 0) -> dict[str, Tally]:
    """Tries up to `per_pair` mutants of each pair, chosen by the seed, or all."""
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    chooser = random.Random(seed)
    for pair in pairs:
        before = module_io.parse(pair.before)
        after = ir.Module.parse(pair.after, before.context)
        with before.context:
            count = sum(1 for _ in Sites(after))
            chosen = range(count)
            if per_pair is not None and count > per_pair:
                chosen = sorted(chooser.sample(chosen, per_pair))
            for number in chosen:
                _try(pair, before, number, tallies)
    return tallies


def _try(pair: Pair, before: ir.Module, number: int, tallies: dict[str, Tally]) -> None:
    mutant = ir.Module.parse(pair.after, before.context)
    kind, apply = next(itertools.islice(Sites(mutant), number, None))
    try:
        apply()
        if not mutant.operation.verify() or str(mutant) == pair.after:
            return
        mutant = ir.Module.parse(str(mutant), before.context)
    except (ir.MLIRError, ValueError, IndexError, TypeError):
        return  # not a module
    tally = tallies[kind]
    if not verify_operations(before.operation, mutant.operation):
        tally.refused += 1
        return
    try:
        differs = None if "sdy." in pair.before else _differ(pair.before, str(mutant))
    except Exception:  # the interpreter raises whatever it likes
        differs = None
    if differs is None:
        tally.unknown += 1
        return
    if differs:
        tally.holes.append(f"{pair.name}, mutant {number}\n{mutant}")
    else:
        tally.same += 1


def _differ(before: str, after: str) -> bool:
    modules = [module_io.parse(text) for text in (before, after)]
    for seed in range(3):
        results = []
        for module in modules:
            with module.context:
                results.append(stablehlo.eval_module(module, _inputs(module, seed)))
                results[-1] = [np.array(r) for r in results[-1]]
        for a, b in zip(*results, strict=True):
            if a.tobytes() != b.tobytes():
                return True
    return False


def _inputs(module: ir.Module, seed: int) -> list[ir.Attribute]:
    rng = np.random.default_rng(seed)
    symbols = ir.SymbolTable(module.operation)
    main = symbols["main"].operation
    kinds = {
        "f32": np.float32,
        "f64": np.float64,
        "i32": np.int32,
        "i1": np.bool_,
        "ui32": np.uint32,
        "i64": np.int64,
        "f16": np.float16,
    }
    found = []
    for type_ in ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs:
        tensor = ir.RankedTensorType(type_)
        element = str(tensor.element_type)
        dtype = kinds[element]
        shape = list(tensor.shape)
        if np.issubdtype(dtype, np.floating):
            array = rng.normal(0.3, 1, shape).astype(dtype)
        else:
            array = rng.integers(0, 2, shape).astype(dtype)
        found.append(ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=tensor))
    return found


def main() -> int:
    tallies = try_mutants(corpus(30), None)
    total = collections.Counter()
    for kind, tally in sorted(tallies.items()):
        row = tally.refused, tally.same, tally.unknown, len(tally.holes)
        print(f"{kind:60}{row[0]:7} refused{row[1]:6} same{row[2]:6} not run{row[3]:4} wrong")
        total.update(dict(enumerate(row)))
        for hole in tally.holes[:2]:
            print(hole)
    print(
        f"{len(tallies)} kinds: {total[0]} refused, {total[1]} the same, {total[2]} not run, "
        f"{total[3]} wrong and proven"
    )
    return int(total[3] > 0)


if __name__ == "__main__":
    sys.exit(main())
