# SPDX-License-Identifier: Apache-2.0
"""Runs modules in StableHLO's reference interpreter, in a process of its own.

The interpreter aborts where it doesn't know an op, and a mutant may never end.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo_remat import _compat
from hlo_remat.ir.fence import zeros
from hlo_remat.ir.index import nested_ops

SECONDS = 5
NO_END = "no end"
INPUTS = 7
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, 1e-40, 1.0, -1.0]


def _bits(type_: ir.Type, seed: int) -> np.ndarray:
    """An argument's raw bits. Input 0 to 2 are random, the others are special."""
    tensor = ir.RankedTensorType(type_)
    shape, element = tuple(tensor.shape), tensor.element_type
    rng = np.random.default_rng(seed)
    if isinstance(element, ir.IntegerType):
        if element.width == 1:
            return np.asarray(rng.integers(0, 2, shape), bool)
        size = f"{'u' if element.is_unsigned else 'i'}{element.width // 8}"
        low, high = {5: (-3, 0), 6: (2**30, 2**31)}.get(seed, (0, 4))
        return np.asarray(rng.integers(low, high, shape), size)
    count = int(np.prod(shape))
    if seed < 3:
        values = rng.normal(0.3, 1, (2, count))
    elif seed == 3:
        values = np.zeros((2, count))
        values[0] = -0.0
    else:
        values = rng.choice(SPECIAL, (2, count))
        kept = rng.random((2, count)) < 0.7
        values = np.where(kept, rng.normal(0.3, 1, (2, count)), values)
    if isinstance(element, ir.ComplexType):
        complex_ = values[0] + 1j * values[1]
        width = 64 if "f32" in str(element) else 128
        return complex_.reshape(shape).astype(f"complex{width}")
    with np.errstate(over="ignore"):
        if str(element) == "bf16":
            single = values[0].astype(np.float32).view(np.uint32)
            return (single >> 16).astype(np.uint16).reshape(shape)
        return (
            values[0].reshape(shape).astype({"f16": "f2", "f32": "f4", "f64": "f8"}[str(element)])
        )


def _argument(type_: ir.Type, seed: int) -> ir.Attribute:
    bits = _bits(type_, seed)
    if str(ir.RankedTensorType(type_).element_type) == "bf16":
        return ir.DenseElementsAttr.get(bits, type=type_)
    return ir.DenseElementsAttr.get(bits)


@functools.lru_cache(maxsize=1)
def _context() -> ir.Context:
    return _compat.make_context()


def _fit(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The first part of a value, or a value and zeros."""
    shape, new = (ir.RankedTensorType(t).shape for t in (value.type, type_))
    low = [0] * len(shape)
    smaller = [min(a, b) for a, b in zip(shape, new, strict=True)]
    value = stablehlo.slice(value, low, smaller, [1] * len(low))
    high = [b - a for a, b in zip(smaller, new, strict=True)]
    scalar = zeros(ir.RankedTensorType.get([], ir.RankedTensorType(type_).element_type))
    return stablehlo.pad(value, scalar, low, high, low)


def _prepare(module: ir.Module) -> None:
    """Makes of a manual computation, which the interpreter doesn't know, what the first of its
    devices does if the others do nothing; effects that nothing reads a result of go."""
    with module.context, ir.Location.unknown():
        for op in nested_ops(module.operation):
            if op.name == "stablehlo.custom_call" and not any(list(r.uses) for r in op.results):
                op.erase()
            elif op.name == "stablehlo.all_reduce":
                for result, operand in zip(op.results, op.operands, strict=True):
                    result.replace_all_uses_with(operand)
        while found := [
            op for op in nested_ops(module.operation) if op.name == "sdy.manual_computation"
        ]:
            op = found[0]
            block = op.regions[0].blocks[0]
            with ir.InsertionPoint(op):
                for argument, operand in zip(block.arguments, op.operands, strict=True):
                    argument.replace_all_uses_with(_fit(operand, argument.type))
                *inside, last = [view.operation for view in block.operations]
                for nested in inside:
                    nested.move_before(op)
                for result, value in zip(op.results, last.operands, strict=True):
                    result.replace_all_uses_with(_fit(value, result.type))
            op.erase()


@functools.lru_cache(maxsize=2)
def _functions(text: str) -> list[tuple[str, ir.Module]]:
    """For each public function a module whose main function it is."""
    module = ir.Module.parse(text, _context())
    _prepare(module)
    names = [
        ir.StringAttr(op.attributes["sym_name"]).value
        for op in module.body.operations
        if op.operation.name == "func.func" and "sym_visibility" not in op.attributes
    ]
    found = []
    for name in names:
        copy = ir.Module.parse(str(module), _context())
        with copy.context:
            symbols = {
                ir.StringAttr(op.attributes["sym_name"]).value: op
                for op in copy.body.operations
                if "sym_name" in op.attributes
            }
            if name != "main":
                if "main" in symbols:
                    symbols["main"].attributes["sym_name"] = ir.StringAttr.get("was_main")
                symbols[name].attributes["sym_name"] = ir.StringAttr.get("main")
        found.append((name, copy))
    return found


def _run(text: str, number: int) -> list[str]:
    results = []
    for name, module in _functions(text):
        with module.context:
            main = next(
                op
                for op in module.body.operations
                if "sym_name" in op.attributes and str(op.attributes["sym_name"]) == '"main"'
            )
            types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
            arguments = [_argument(t, number * 100 + k) for k, t in enumerate(types)]
            for attribute in stablehlo.eval_module(module, arguments):
                results.append(f"{name} {attribute}")
    return results


def _serve(pipe: Any) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # it says what it aborts on
    pipe.send("ready")
    while True:
        try:
            text, number = pipe.recv()
        except EOFError:  # nobody asks any more
            return
        try:
            pipe.send(_run(text, number))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")


class Oracle:
    """`compare` says whether a module gives the bits that another one does for all inputs
    ("equal"), or not for one ("hole"), or doesn't end ("endless"), or that it can't tell
    ("unknown")."""

    def __init__(self) -> None:
        self._worker: Any = None
        self._expected: tuple[str, dict[int, Any]] = ("", {})

    def _ask(self, text: str, number: int, seconds: float = SECONDS) -> list[str] | str:
        """The results, or what went wrong."""
        if self._worker is None:
            spawn = multiprocessing.get_context("spawn")
            here, there = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(there,), daemon=True)
            process.start()
            there.close()
            here.recv()
            self._worker = process, here
        _, pipe = self._worker
        pipe.send((text, number))
        try:
            if pipe.poll(seconds):
                return pipe.recv()
            answer = NO_END
        except EOFError:
            answer = "the interpreter aborts"
        self.close()
        return answer

    def compare(self, text: str, other: str) -> str:
        if self._expected[0] != text:
            self._expected = text, {}
        can_tell = False
        for number in range(INPUTS):
            if number not in self._expected[1]:
                self._expected[1][number] = self._ask(text, number)
            expected = self._expected[1][number]
            if isinstance(expected, str):
                continue
            actual = self._ask(other, number)
            if actual == NO_END:
                return "endless"
            if isinstance(actual, str):
                continue
            if actual != expected:
                return "hole"
            can_tell = True
        return "equal" if can_tell else "unknown"

    def ends(self, text: str) -> bool:
        """Whether a module is quickly done."""
        return self._ask(text, 0, 0.5) != NO_END

    def close(self) -> None:
        if self._worker is not None:
            process, pipe = self._worker
            process.kill()
            process.join()
            pipe.close()
            self._worker = None
