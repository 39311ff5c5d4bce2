# SPDX-License-Identifier: Apache-2.0
"""What the planner plans for: values with sizes, ops with costs, in program order."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

import numpy as np

from hlo_remat.errors import GraphError

Ints = np.ndarray  # one-dimensional, int64


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """A value: an argument if no op makes it.

    - `bytes`: its size; for a value made in a loop, its size in one trip.
    - `is_savable`: whether it may be kept from before `Graph.boundary` to after it.
    - `is_output`: its last instance stays until the program's end.
    - `is_donated`: an argument whose memory is free after its last reader. Other arguments stay.
    - `alias_of`: it is a view of that value, which its op reads: same memory, no bytes of its own.
    """

    bytes: int
    name: str = ""
    is_savable: bool = True
    is_output: bool = False
    is_donated: bool = False
    alias_of: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """An op, at the position in the program that its place in `Graph.ops` says.

    - `cost`: of one run, in any unit; for an op in a loop, of all trips.
    - `operands`, `results`: indices of values.
    - `workspace`: bytes that it needs while it runs, on top of operands and results.
    - `in_place`: (operand, result) pairs of one size; the result takes the operand's memory where
      nothing reads the operand later.
    - `loop`: index of the innermost loop that it is in.
    """

    cost: float
    operands: tuple[int, ...]
    results: tuple[int, ...]
    name: str = ""
    is_recomputable: bool = True
    workspace: int = 0
    in_place: tuple[tuple[int, int], ...] = ()
    loop: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """A loop: ops at consecutive positions that run `trips` times.

    What is made in it and read outside is kept of each trip. `replays` is the loop whose ops may
    run again in this one, trip for trip (a backward loop replays its forward loop).
    """

    trips: int
    replays: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Lists of integers, end to end: row `i` is `items[start[i]:start[i + 1]]`."""

    start: Ints
    items: Ints

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Rows:
        lists = [list(row) for row in rows]
        start = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(row) for row in lists], out=start[1:])
        return cls(start, np.array([i for row in lists for i in row], np.int64))

    def gather(self, which: Ints) -> tuple[Ints, Ints]:
        """The items of the rows `which`, and for each item the index into `which`."""
        counts = self.start[which + 1] - self.start[which]
        owner = np.repeat(np.arange(len(which)), counts)
        first = np.cumsum(counts) - counts
        return self.items[np.arange(len(owner)) - first[owner] + self.start[which][owner]], owner


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A program for the planner: `ops` in the order in which it runs them.

    A plan keeps that order for each op's first run and adds further runs in between.
    `boundary` is a position: values that aren't savable may not be kept from before it to after
    it. None takes the position at which the program as it is has most bytes live.

    Raises `GraphError` for what isn't a program: an operand that is made later or never, two ops
    that make one value, negative or non-finite numbers.
    """

    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    loops: tuple[Loop, ...] = ()
    boundary: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _validate(self)

    @functools.cached_property
    def bytes(self) -> Ints:
        """Bytes of each value's own memory: 0 for views. Shape [values]."""
        return np.array([0 if v.alias_of is not None else v.bytes for v in self.values], np.int64)

    @functools.cached_property
    def loop(self) -> Ints:
        """The loop of each op, -1 outside of loops. Shape [ops]."""
        return np.array([-1 if op.loop is None else op.loop for op in self.ops], np.int64)

    @functools.cached_property
    def stacked_bytes(self) -> Ints:
        """Bytes of each value where it is kept after its loop: of all trips. Shape [values]."""
        trips = np.array([*(loop.trips for loop in self.loops), 1], np.int64)
        made_in = np.append(self.loop, -1)[self.definer]
        return self.bytes * trips[made_in]

    @functools.cached_property
    def cost(self) -> np.ndarray:
        """Cost of each op. Shape [ops], float64."""
        return np.array([op.cost for op in self.ops], np.float64)

    @functools.cached_property
    def workspace(self) -> Ints:
        """Transient bytes of each op. Shape [ops]."""
        return np.array([op.workspace for op in self.ops], np.int64)

    @functools.cached_property
    def operands(self) -> Rows:
        """For each op the values that it reads, each once."""
        return Rows.of(dict.fromkeys(op.operands) for op in self.ops)

    @functools.cached_property
    def results(self) -> Rows:
        """For each op the values that it makes."""
        return Rows.of(op.results for op in self.ops)

    @functools.cached_property
    def in_place(self) -> Rows:
        """For each op the operands whose memory its results can take."""
        return Rows.of((operand for operand, _ in op.in_place) for op in self.ops)

    @functools.cached_property
    def readers(self) -> Rows:
        """For each value the ops that read it, in program order."""
        read, reader = self.operands.gather(np.arange(len(self.ops)))
        order = np.argsort(read, kind="stable")
        start = np.zeros(len(self.values) + 1, np.int64)
        np.cumsum(np.bincount(read, minlength=len(self.values)), out=start[1:])
        return Rows(start, reader[order])

    @functools.cached_property
    def definer(self) -> Ints:
        """For each value the op that makes it, -1 for arguments. Shape [values]."""
        definer = np.full(len(self.values), -1, np.int64)
        for i, op in enumerate(self.ops):
            definer[list(op.results)] = i
        return definer

    @functools.cached_property
    def root(self) -> Ints:
        """For each value the one whose memory it is in: itself, unless it is a view."""
        root = np.arange(len(self.values))
        for op in self.ops:
            for result in op.results:
                alias = self.values[result].alias_of
                if alias is not None:
                    root[result] = root[alias]
        return root

    @functools.cached_property
    def last_read(self) -> Ints:
        """For each value the position of its last reader, -1 without one. Shape [values]."""
        last = np.full(len(self.values), -1, np.int64)
        read, reader = self.operands.gather(np.arange(len(self.ops)))
        np.maximum.at(last, read, reader)
        return last

    @functools.cached_property
    def total_cost(self) -> float:
        """The cost of one run of the program."""
        return math.fsum(op.cost for op in self.ops)

    def moment(self, position: int) -> int:
        """The position, or if it is in a loop that of the loop's first op; where the loop is
        replayed later, that of what comes after it. What a loop reads stays to its end, and what it
        makes for later is there from its start."""
        loop = self.ops[position].loop if position < len(self.ops) else None
        if loop is None:
            return position
        (inside,) = np.nonzero(self.loop == loop)
        is_replayed = any(other.replays == loop for other in self.loops)
        return int(inside[-1]) + 1 if is_replayed else int(inside[0])

    def describe(self, op: int) -> str:
        """The op's name, or its position where it has none."""
        return self.ops[op].name or f"op {op}"


def _validate(graph: Graph) -> None:
    made = {v for op in graph.ops for v in op.results}
    available = set(range(len(graph.values))) - made
    for i, value in enumerate(graph.values):
        where = f"value {value.name or i}"
        _check_number(value.bytes, f"{where}: bytes")
        if value.bytes != int(value.bytes):
            raise GraphError(f"{where}: bytes is {value.bytes}, not a whole number")
        if value.alias_of is not None and not 0 <= value.alias_of < len(graph.values):
            raise GraphError(f"{where}: alias of value {value.alias_of}, which doesn't exist")
        if value.alias_of is not None and i in available:
            raise GraphError(f"{where}: an argument can't be a view")
    seen: set[int] = set()
    for i, op in enumerate(graph.ops):
        where = f"op {op.name or i}"
        _check_number(op.cost, f"{where}: cost")
        _check_number(op.workspace, f"{where}: workspace")
        for v in op.operands:
            if not 0 <= v < len(graph.values):
                raise GraphError(f"{where}: reads value {v}, which doesn't exist")
            if v not in available:
                raise GraphError(
                    f"{where}: reads value {graph.values[v].name or v}, which is made later"
                )
        for v in op.results:
            if not 0 <= v < len(graph.values):
                raise GraphError(f"{where}: makes value {v}, which doesn't exist")
            if v in seen:
                raise GraphError(f"{where}: value {graph.values[v].name or v} is made twice")
            seen.add(v)
            available.add(v)
            alias = graph.values[v].alias_of
            if alias is not None and alias not in op.operands:
                raise GraphError(f"{where}: makes a view of value {alias}, which it doesn't read")
        for operand, result in op.in_place:
            if operand not in op.operands or result not in op.results:
                raise GraphError(f"{where}: in_place ({operand}, {result}): no such pair")
            if graph.values[operand].bytes != graph.values[result].bytes:
                raise GraphError(f"{where}: in_place ({operand}, {result}): sizes differ")
    _validate_loops(graph)


def _validate_loops(graph: Graph) -> None:
    for i, loop in enumerate(graph.loops):
        if loop.trips < 1:
            raise GraphError(f"loop {i}: {loop.trips} trips")
        if loop.replays is not None:
            if not 0 <= loop.replays < i:
                raise GraphError(f"loop {i}: replays loop {loop.replays}, which isn't before it")
            if graph.loops[loop.replays].trips != loop.trips:
                raise GraphError(f"loop {i}: replays loop {loop.replays} of other trips")
    last: int | None = None
    closed: set[int | None] = set()
    for i, op in enumerate(graph.ops):
        if op.loop is not None and not 0 <= op.loop < len(graph.loops):
            raise GraphError(f"op {op.name or i}: loop {op.loop} doesn't exist")
        if op.loop != last:
            closed.add(last)
            last = op.loop
            if last is not None and last in closed:
                raise GraphError(f"op {op.name or i}: loop {last} isn't in one piece")


def _check_number(number: float, what: str) -> None:
    is_number = isinstance(number, (int, float, np.integer, np.floating))
    if not is_number or isinstance(number, bool) or not math.isfinite(number) or number < 0:
        raise GraphError(f"{what} is {number!r}; it must be a finite number of at least 0")
