# SPDX-License-Identifier: Apache-2.0
"""Writes a plan's recomputes into the function, as markers that the passes lower.

Each moment at which something runs again becomes a `bwd_enter`: its values are what has just
been made there (in a backward, the cotangents), so that the recompute can't start earlier; its
residuals are what the recompute starts from, to be saved, and what it makes, to be recomputed. What
runs later reads those results.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo_remat.budget.program import Program
from hlo_remat.budget.scans import write_scan
from hlo_remat.ir.markers import Decision, Kind, Region, build_marker
from hlo_remat.planner.simulate import Recompute
from hlo_remat.policies import NothingSaveable

_LOOK_BACK = 64  # ops of the graph in which a value counts as just made


@dataclasses.dataclass
class Stage:
    """What runs again right before the op of the graph at `before`: ops of the graph; the values
    of them that others read; and what they read of others, each with the stage that made it, -1
    for the program itself."""

    before: int
    ops: list[int]
    targets: dict[int, None]
    leaves: dict[int, int]


def stages_of(program: Program, recomputes: Sequence[Recompute]) -> list[Stage]:
    """The stages of a plan. All that a backward loop runs again of its forward is one, at the
    loop's start."""
    graph = program.graph
    starts: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        if op.loop is not None:
            starts.setdefault(op.loop, position)
    by_place: dict[int, list[int]] = defaultdict(list)
    for r in recomputes:
        loop = graph.ops[r.before].loop
        by_place[r.before if loop is None else starts[loop]].append(r.op)
    stages = [Stage(p, sorted(set(ops)), {}, {}) for p, ops in sorted(by_place.items())]
    newest: dict[int, int] = {}
    pending = iter([*enumerate(stages), (len(stages), Stage(len(graph.ops), [], {}, {}))])
    number, stage = next(pending)
    for position, op in enumerate(graph.ops):
        while stage.before == position:
            for again in stage.ops:
                for v in graph.ops[again].operands:
                    made = newest.get(v, -1)
                    if graph.definer[v] not in stage.ops:
                        stage.leaves[v] = made
                        if made >= 0:
                            stages[made].targets[v] = None
            for again in stage.ops:
                newest.update((v, number) for v in graph.ops[again].results)
            number, stage = next(pending)
        for v in op.operands:
            if v in newest:
                stages[newest[v]].targets[v] = None
        for v in op.results:
            newest.pop(v, None)
    return stages


def write(module: ir.Module, program: Program, recomputes: Sequence[Recompute]) -> None:
    """Changes the function that `program` was read from, in `module`. The program's index, and with
    it the program, is stale afterwards."""
    stages = stages_of(program, recomputes)
    symbols = ir.SymbolTable(module.operation)
    loops = program.graph.loops
    opened = {}
    for stage in stages:
        loop = program.graph.ops[stage.before].loop
        if loop is not None and loops[loop].replays is not None and stage.targets:
            opened[loop] = stage
    _Writer(module, symbols, program, stages).run()
    for loop, stage in sorted(opened.items(), reverse=True):
        write_scan(module, symbols, program, loop, stage.ops, sorted(stage.targets))


class _Writer:
    """Writes the stages in the function's own block."""

    def __init__(
        self, module: ir.Module, symbols: ir.SymbolTable, program: Program, stages: list[Stage]
    ):
        self.module, self.symbols, self.program = module, symbols, program
        self.graph, self.index = program.graph, program.index
        self.stages = stages
        (self.block,) = self.index.nested_blocks[-1]
        self.terminator = self.index.blocks[self.block][-1]
        self.rank = {op: k for k, op in enumerate(program.order)}
        self.rank[self.terminator] = len(program.order)
        self.current: dict[int, ir.Value] = {}  # the newest instance of values that have a new one
        self.newest_rank = (
            len(program.order) + 1
        )  # of the last stage: what is before reads older instances

    def run(self) -> None:
        graph, index = self.graph, self.index
        here = [s for s in self.stages if graph.ops[s.before].loop is None and s.targets]
        if not here:
            return
        last = index.ops[self.terminator]
        for op in self.program.order:
            index.ops[op].move_before(last)
        pending = here[::-1]
        rank, done = -1, set()
        for position in range(len(graph.ops)):
            while pending and pending[-1].before == position:
                self.write_stage(pending.pop(), rank + 1)
            op = self.program.op_of[position]
            if graph.ops[position].loop is not None:
                continue
            read = frozenset(
                graph.operands.items[graph.operands.start[position] :][
                    : graph.operands.start[position + 1] - graph.operands.start[position]
                ].tolist()
            )
            first = op not in done
            done.add(op)
            if first:
                rank = max(rank, self.rank[op])
            if not self.current:
                continue
            if self.rank[op] < self.newest_rank:
                if len(index.results[op]) == 1:
                    self.repeat(op, read, rank)
            elif first:
                for member in sorted(self.program.clusters[position] | {op}):
                    if self.rank[member] >= self.newest_rank:
                        self.redirect(member, read)
        returned = frozenset(self.program.outside)
        self.redirect(self.terminator, returned)

    def redirect(self, op: int, read: frozenset[int]) -> None:
        """Lets an op, and what is nested in it, read the newest instances."""
        made: dict[int, ir.Value | None] = {}
        for nested in range(op, self.index.end[op]):
            for k, v in enumerate(self.index.operands[nested]):
                new = self.newest(v, read, op, made)
                if new is not None:
                    self.index.ops[nested].operands[k] = new

    def repeat(self, op: int, read: frozenset[int], rank: int) -> None:
        (result,) = self.index.results[op]
        order = self.program.order
        following = order[rank + 1] if rank + 1 < len(order) else self.terminator
        made: dict[int, ir.Value | None] = {}
        new = self.newest(result, read, following, made)
        if new is not None:
            self.current[result] = new

    def newest(
        self, value: int, read: frozenset[int], op: int, made: dict[int, ir.Value | None]
    ) -> ir.Value | None:
        """What `op`, which reads the graph's values `read`, is to read for `value`; None for the
        value itself. What XLA would fuse into the op is cloned where it reads new instances."""
        if value in self.current:
            return self.current[value]
        if value in made:
            return made[value]
        todo = [value]
        while todo:
            v = todo[-1]
            maker = self.index.definer[v]
            known = self.program.value_of.get(v)
            is_kept = (
                maker < 0
                or self.index.block[maker] != self.block
                or (known is not None and known in read)
                or self.index.end[maker] > maker + 1
                or not self.index.operands[maker]
            )
            if is_kept or v in made:
                made.setdefault(v, None)
                todo.pop()
                continue
            operands = self.index.operands[maker]
            unknown = [u for u in operands if u not in made and u not in self.current]
            if unknown:
                todo += unknown
                continue
            todo.pop()
            new = [self.current.get(u, made.get(u)) for u in operands]
            made[v] = None
            old = self.index.ops[maker].operands
            if any(n is not None and n != o for n, o in zip(new, old, strict=True)):
                with ir.InsertionPoint(self.index.ops[op]):
                    clone = self.index.ops[maker].clone().operation
                for k, n in enumerate(new):
                    if n is not None:
                        clone.operands[k] = n
                made.update(zip(self.index.results[maker], clone.results, strict=True))
        return made[value]

    def write_stage(self, stage: Stage, rank: int) -> None:
        index = self.index
        order = self.program.order
        place = index.ops[order[rank] if rank < len(order) else self.terminator]
        leaves = dict.fromkeys(self.program.made[v] for v in stage.leaves)
        made = {v for op in stage.ops for v in index.results[self.program.op_of[op]]}
        targets = dict.fromkeys(self.program.made[v] for v in stage.targets)
        starters = self.starters(stage, rank, made)
        context = self.module.context
        label = f"plan.{stage.before}"
        region = Region(label, NothingSaveable())
        residuals = [(self.instance(v), Decision.SAVE) for v in leaves if v not in made]
        residuals += [(index.values[v], Decision.RECOMPUTE) for v in targets]
        with ir.InsertionPoint(place), place.location:
            marker = build_marker(
                Kind.BWD_ENTER,
                self.symbols,
                self.module.operation,
                [self.instance(v) for v in starters],
                residuals=residuals,
                attributes=region.to_attributes(context),
            )
        results = list(marker.results)
        self.current.update(zip(starters, results, strict=False))
        self.current.update(zip(targets, results[len(results) - len(targets) :], strict=True))
        self.newest_rank = rank

    def instance(self, value: int) -> ir.Value:
        return self.current.get(value, self.index.values[value])

    def starters(self, stage: Stage, rank: int, made: set[int]) -> list[int]:
        """What has just been made and is read from here on: of what the first reader reads the
        latest, and the latest of all."""
        graph, index = self.graph, self.index
        latest: dict[int, None] = {}
        position = stage.before
        needed = set(graph.operands.gather(np.array([position]))[0].tolist())
        for back in range(position - 1, -1, -1):
            op = self.program.op_of[back]
            if graph.ops[back].loop is not None or op not in self.rank or self.rank[op] >= rank:
                continue
            for v in graph.ops[back].results:
                value = self.program.made[v]
                is_read = value >= 0 and graph.last_read[v] >= position
                if not is_read or value in made or index.values[value].type is None:
                    continue
                if v in needed or not latest:
                    latest[value] = None
                if v in needed:
                    return list(latest)
            if latest and position - back > _LOOK_BACK:
                break
        return list(latest)
