# SPDX-License-Identifier: Apache-2.0
"""What XLA makes of a module: what it writes to memory, in which order, and how much memory that
is.

An op of a module is known in XLA's program by its location, which becomes the `op_name` of what it
is compiled to. So a copy of the module is compiled in which each op has its number for a location.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo_remat import module_io
from hlo_remat.ir.index import nested_ops


@dataclasses.dataclass(frozen=True)
class Memory:
    """A compiled program's memory on one device, in bytes, as `memory_analysis()` says."""

    arguments: int
    outputs: int
    temp: int
    aliased: int

    @property
    def fixed(self) -> int:
        """What no plan changes: arguments and outputs, what is in both counted once."""
        return self.arguments + self.outputs - self.aliased

    @property
    def total(self) -> int:
        """What a memory budget is about."""
        return self.fixed + self.temp

    @classmethod
    def of(cls, analysis: object) -> Memory:
        """Of what `memory_analysis()` returns."""
        names = ("argument", "output", "temp", "alias")
        return cls(*(getattr(analysis, f"{name}_size_in_bytes") for name in names))


@dataclasses.dataclass(frozen=True)
class Compiled:
    """XLA's scheduled program as text, its memory, and whatever else the compiler made."""

    text: str
    memory: Memory
    program: Any = None


# Compiles a module that has the arguments and results of the one that is planned for. Raises
# whatever XLA raises.
Compile = Callable[[ir.Module], Compiled]


@dataclasses.dataclass(frozen=True)
class Written:
    """Something that XLA writes to memory.

    - `op`: the op whose result it is, in preorder over the module's main function.
    - `bytes`: on one device.
    - `reads`: what is read for it, as indices into `Schedule.written`, and `arguments` by number;
      None where that isn't known, as in loops.
    """

    op: int
    bytes: int
    reads: frozenset[int] | None = None
    arguments: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What XLA's program writes to memory, in the order in which it runs. It may write the result
    of an op several times: what is cheap it computes again, and in several layouts."""

    written: Sequence[Written]
    memory: Memory


def learn(module: ir.Module, function: str, compile: Compile) -> Schedule:
    """Compiles `module` and reads XLA's schedule of its function `function`."""
    tagged = module_io.copy(module)
    unknown = ir.Location.unknown(tagged.context)
    for op in nested_ops(tagged.operation):
        op.location = unknown
    for i, op in enumerate(nested_ops(ir.SymbolTable(tagged.operation)[function].operation)):
        op.location = ir.Location.name(f"#{i}", context=tagged.context)
    compiled = compile(tagged)
    return Schedule(_Reader(compiled.text).read(), compiled.memory)


_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\(")
_SHAPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_TAG = re.compile(r'op_name="([^"]*)"')
_CALLED = re.compile(r"calls=%?([\w.\-]+)")
_NUMBER = re.compile(r"#(\d+)")
_NESTED = re.compile(r"\b(?:body|to_apply|(?:true|false)_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_OPERAND = re.compile(r"%([\w.\-]+)")
_FREE = frozenset({"constant", "bitcast", "get-tuple-element", "tuple", "iota"})
_HOLDING = frozenset({"while", "conditional", "call"})

Sources = tuple[frozenset[int], frozenset[int]]  # indices into what is written, and arguments
_NOTHING: Sources = (frozenset(), frozenset())


class _Reader:
    """Reads a scheduled HLO module."""

    def __init__(self, text: str):
        self.computations: dict[str, list[str]] = {}
        self.entry = ""
        self.written: list[Written] = []
        lines: list[str] = []
        for line in text.splitlines():
            header = _COMPUTATION.match(line)
            if header:
                lines = self.computations[header[1]] = []
                if line.startswith("ENTRY"):
                    self.entry = header[1]
            elif line.startswith("  "):
                lines.append(line)

    def read(self) -> list[Written]:
        """What loops, branches and calls hold comes where they are."""
        sources: dict[str, Sources] = {}
        for line in self.computations.get(self.entry, ()):
            found = _INSTRUCTION.match(line)
            if found is None:
                continue
            name, opcode = found[2], found[4]
            inside = line[found.end() :].partition(")")[0]
            if opcode == "parameter":
                sources[name] = frozenset(), frozenset({int(inside)})
                continue
            read = [sources.get(v, _NOTHING) for v in _OPERAND.findall(inside)]
            ops = frozenset().union(*(r[0] for r in read))
            arguments = frozenset().union(*(r[1] for r in read))
            self.nested(opcode, line)
            first = len(self.written)
            self.written += [Written(op, n, ops, arguments) for op, n in self.made(found, line)]
            new = frozenset(range(first, len(self.written)))
            sources[name] = (new, frozenset()) if new else (ops, arguments)
        return self.written

    def nested(self, opcode: str, line: str) -> None:
        names = _NESTED.findall(line) if opcode in _HOLDING else []
        for branches in _BRANCHES.findall(line):
            names += [branch.strip(" %") for branch in branches.split(",")]
        for name in names:
            for inner in self.computations.get(name, ()):
                found = _INSTRUCTION.match(inner)
                if found is not None:
                    self.nested(found[4], inner)
                    self.written += [Written(op, n) for op, n in self.made(found, inner)]

    def made(self, found: re.Match[str], line: str) -> Iterator[tuple[int, int]]:
        """The ops and the bytes that an instruction writes."""
        if found[4] in _FREE or found[4] == "parameter":
            return
        called = _CALLED.search(line) if found[4] == "fusion" else None
        if called and found[3].startswith("("):
            yield from self.of_tuple(called[1])
            return
        op = self.root(called[1]) if called else None
        if op is None:
            op = _op(line)
        if op is not None:
            yield op, _bytes(found[3])

    def root(self, computation: str) -> int | None:
        """The op that a fusion ends with."""
        lines = self.computations.get(computation, ())
        return next((_op(line) for line in reversed(lines) if line.startswith("  ROOT")), None)

    def of_tuple(self, computation: str) -> Iterator[tuple[int, int]]:
        """What a fusion of several results writes."""
        by_name = {}
        for line in self.computations.get(computation, ()):
            found = _INSTRUCTION.match(line)
            if found is not None:
                by_name[found[2]] = line, found[3]
                if found[1]:
                    for operand in _OPERAND.findall(line[found.end() :].partition(")")[0]):
                        made, shape = by_name.get(operand, ("", ""))
                        op = _op(made)
                        if op is not None:
                            yield op, _bytes(shape)


def _op(line: str) -> int | None:
    """The number of the op that an instruction is: of several merged ones the last."""
    tag = _TAG.search(line)
    numbers = _NUMBER.findall(tag[1]) if tag else []
    return max(map(int, numbers)) if numbers else None


_BITS = re.compile(r"\d+")


def _bytes(shape: str) -> int:
    total = 0
    for element, dims in _SHAPE.findall(shape):
        bits = 8 if element == "pred" else int((_BITS.search(element) or ["0"])[0])
        total += math.prod(int(d) for d in dims.split(",") if d) * bits // 8
    return total
