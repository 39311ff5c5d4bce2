# SPDX-License-Identifier: Apache-2.0
"""The planner's graph of a function: what XLA writes to memory, in the order in which it runs.

An op of the graph is a cluster: an op whose result is written to memory, with those that XLA
fuses into it. Loops of which one reads the stacks of another, as a scan's backward does, are
opened: their bodies' ops are ops of the graph, and the stacks are the values that they hold.
Everything else that has regions is one op.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.budget.clusters import is_elementwise, is_fused, order_of, written_by_rule
from hlo_remat.cost.flops import PRODUCTS, flops, is_half
from hlo_remat.cost.targets import Target
from hlo_remat.cost.xla import Schedule
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.location import describe_location
from hlo_remat.ir.needs import LOOP
from hlo_remat.ir.origin import Frame
from hlo_remat.ir.pairing import Pairing
from hlo_remat.ir.purity import Purity
from hlo_remat.ir.regions import Constants
from hlo_remat.ir.sizes import size_in_bytes
from hlo_remat.planner.graph import Graph, Loop, Op, Value

_FENCES = frozenset({"stablehlo.optimization_barrier", "func.call"})
_MAX_CLUSTER = 256  # ops that are counted as fused into one
_DONATED = ("tf.aliasing_output", "jax.buffer_donor")


@dataclasses.dataclass(frozen=True)
class Scan:
    """A loop that is opened because the loop `backward` reads its stacks, or is one."""

    op: int
    trips: int
    frame: Frame | None = None  # for backwards: the loop that is replayed


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A function and its graph.

    - `order`: the ops of the function's block in the order of the graph.
    - `op_of`: for each op of the graph the function's.
    - `value_of`: the graph's value of the function's values that have one; `made` is the other way.
    - `scans`: for each loop of the graph the function's.
    - `reads`: for a backward scan, by its op, what it reads of its forward: (forward value, value).
    - `clusters`: for each op of the graph the ops that run for it, itself included.
    - `flops`: for each op of the graph, all trips.
    - `outside`: bytes of the results that the function returns. The graph has 0 for them, and for
      arguments: its bytes are what XLA counts as temporary.
    """

    index: Index
    pairing: Pairing
    graph: Graph
    order: list[int]
    op_of: list[int]
    value_of: dict[int, int]
    made: list[int]
    scans: list[Scan]
    reads: dict[int, list[tuple[int, int]]]
    clusters: list[frozenset[int]]
    flops: list[float]
    outside: dict[int, int]

    @functools.cached_property
    def constants(self) -> Constants:
        """The ops that depend on nothing but constants."""
        return Constants(self.index, self.pairing.purity.impure_ops(self.index))


def read_program(
    function: ir.Operation,
    purity: Purity,
    target: Target,
    schedule: Schedule | None = None,
    in_its_order: bool = True,
) -> Program:
    """The program of a function of one block. What is written to memory is what XLA writes
    according to `schedule`, and `in_its_order` if so, else in the order of the function; or it is
    by rule."""
    return _Builder(function, purity, target, schedule, in_its_order).build()


@dataclasses.dataclass
class _Node:
    op: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    name: str
    cost: float = 0.0
    flops: float = 0.0
    is_recomputable: bool = False
    in_place: tuple[tuple[int, int], ...] = ()
    loop: int | None = None
    stays: bool = False
    cluster: frozenset[int] = frozenset()


class _Builder:
    def __init__(
        self,
        function: ir.Operation,
        purity: Purity,
        target: Target,
        schedule: Schedule | None,
        in_its_order: bool,
    ):
        self.function = function
        self.index = Index(function)
        self.purity = purity
        self.target = target
        self.schedule = schedule
        self.is_ordered = schedule is not None and in_its_order
        self.impure = purity.impure_ops(self.index)
        self.pairing = Pairing(self.index, {}, Aliases(self.index, {}), purity)
        self.loops = self.pairing.origins.loops
        self.nodes: list[_Node] = []
        self.values: list[Value] = []
        self.made: list[int] = []
        self.value_of: dict[int, int] = {}
        self.sources: dict[int, tuple[int, ...]] = {}
        self.cluster: dict[int, frozenset[int]] = {}
        self.scans: list[Scan] = []
        self.number: dict[int, int] = {}  # of a scan by its op
        self.stacks: set[int] = set()  # values that are but what an opened loop hands over
        self.origin: dict[int, int] = {}  # of what an opened backward reads
        self.written: set[int] = set()
        self.instances: dict[int, list[int]] = {}
        self.instance_value: dict[int, int] = {}

    def build(self) -> Program:
        index = self.index
        (block,) = index.nested_blocks[-1]
        reads = self.open_loops(block)
        self.read_schedule()
        for b in (block, *(self.loops.body(op) for op in self.scan_of)):
            self.written |= self.written_in(b)
        arguments: Any = (
            ir.ArrayAttr(self.function.attributes["arg_attrs"])
            if ("arg_attrs" in self.function.attributes)
            else [{}] * len(index.block_arguments[block])
        )
        for v, attributes in zip(index.block_arguments[block], arguments, strict=True):
            donated = any(name in attributes for name in _DONATED)
            self.add_value(
                v,
                self.size(v),
                f"argument {index.block_arguments[block].index(v)}",
                is_donated=donated,
            )
        order = self.add_block(block)
        outputs = {s for v in index.operands[index.blocks[block][-1]] for s in self.union([v])}
        return self.finish(order, outputs, reads)

    def add_block(self, block: int) -> list[int]:
        """Adds the function's ops, in the order that is returned."""
        members = self.index.blocks[block][:-1]
        if not self.is_ordered:
            for op in members:
                self.visit(op)
            return members
        places = {op: at[0] for op, at in self.instances.items()}
        order, needed = order_of(self.index, block, places, self.impure)
        todo = order[::-1]
        written = sorted((at, op) for op, places in self.instances.items() for at in places)
        for at, op in written:
            while todo and needed[todo[-1]] <= at:
                self.visit(todo.pop())
            if self.index.block[op] == block and op not in self.scan_of:
                self.add_written(op, at)
        while todo:
            self.visit(todo.pop())
        return order

    def visit(self, op: int) -> None:
        if op in self.scan_of:
            self.add_scan(op)
        else:
            self.add_op(op, None)

    # -- loops ---------------------------------------------------------------------------------

    def open_loops(self, block: int) -> dict[int, list[tuple[int, int]]]:
        """Finds the loops to open; what each backward reads of its forward."""
        index = self.index
        found: dict[int, list[tuple[int, int]]] = {}
        self.scan_of: dict[int, Scan] = {}
        for op in index.blocks[block]:
            trips = self.loops.trips(op) if index.names[op] == LOOP else None
            if not trips or self.impure[op]:
                continue
            by_frames = {
                frames[0]: values
                for frames, values in self.pairing.reads(self.loops.body(op)).items()
                if len(frames) == 1
                and frames[0].slots is not None
                and index.block[frames[0].forward] == block
                and self.loops.trips(frames[0].forward) == trips
                and not self.impure[frames[0].forward]
            }
            if not by_frames:
                continue
            frame = max(by_frames, key=lambda f: sum(map(self.size, by_frames[f])))
            if frame.forward in self.scan_of and self.scan_of[frame.forward].frame is not None:
                continue
            self.scan_of[frame.forward] = Scan(frame.forward, trips)
            self.scan_of[op] = Scan(op, trips, frame)
            found[op] = [(v, r) for v, reads in by_frames[frame].items() for r in reads]
        self.origin = {r: v for pairs in found.values() for v, r in pairs}
        for scan in self.scan_of.values():
            if scan.frame is None:
                self.stacks |= self.handed_over(scan.op)
        return found

    def handed_over(self, forward: int) -> set[int]:
        """The results of an opened loop that opened backwards only read by row."""
        index, found = self.index, set()
        rows = {self.row_of(r) for r in self.origin}
        for result in index.results[forward]:
            uses = self.uses_behind_reshapes(result)
            carried = []
            for user, number in uses:
                scan = self.scan_of.get(user)
                if scan is None or scan.frame is None or scan.frame.forward != forward:
                    break
                argument = self.loops.arguments(user)[number]
                if self.loops.outer(argument) == argument:
                    break
                carried.append(argument)
            else:
                readers = {u for a in carried for u, _ in index.uses[a]}
                ends = {index.blocks[self.loops.body(u)][-1] for u, _ in uses}
                if uses and readers <= rows | ends:
                    found.add(result)
        return found

    def uses_behind_reshapes(self, value: int) -> list[Use]:
        """The uses of a value, and of reshapes of it: an unrolled loop's stacks pass some."""
        index, found, todo = self.index, [], [value]
        while todo:
            for use in index.uses[todo.pop()]:
                if index.names[use[0]] == "stablehlo.reshape":
                    todo += index.results[use[0]]
                else:
                    found.append(use)
        return found

    def row_of(self, value: int) -> int:
        """The dynamic_slice that a value read from a stack is a reshape of."""
        op = self.index.definer[value]
        while op >= 0 and self.index.names[op] != "stablehlo.dynamic_slice":
            op = self.index.definer[self.index.operands[op][0]]
        return op

    def add_scan(self, op: int) -> None:
        index, scan = self.index, self.scan_of[op]
        number = self.number[op] = len(self.scans)
        self.scans.append(scan)
        arguments, yielded = self.loops.arguments(op), self.loops.yielded(op)
        body = self.loops.body(op)
        carried = []
        for argument, passed, init, result in zip(
            arguments, yielded, index.operands[op], index.results[op], strict=True
        ):
            if passed == argument:
                self.sources[argument] = self.sources[result] = self.union([init])
            elif result in self.stacks:
                self.sources[argument] = self.sources[result] = ()
            else:
                carried.append((argument, passed, init, result))
        where = self.describe(op)
        inside = [c for c in carried if self.is_accumulated(c[0], c[1])]
        between = [c for c in carried if c not in inside]
        reads = self.union(init for _, _, init, _ in carried)
        held = [self.add_value(c[0], self.size(c[0]), where) for c in inside]
        tokens = [self.new_value(-1, 0, where) for _ in between]
        in_place = [
            (self.union([c[2]])[0], v)
            for c, v in zip(inside, held, strict=True)
            if len(self.union([c[2]])) == 1
            and self.values[self.union([c[2]])[0]].bytes == self.values[v].bytes
        ]
        enter = f"start of the loop at {where}"
        self.nodes.append(_Node(op, reads, (*held, *tokens), enter, in_place=tuple(in_place)))
        starts = [
            self.add_value(c[0], self.size(c[0]), f"carry of the loop at {where}") for c in between
        ]
        if starts:
            self.nodes.append(_Node(op, tuple(tokens), tuple(starts), enter, loop=number))
        accumulators = {c[1]: v for c, v in zip(inside, held, strict=True)}
        for member in index.blocks[body][:-1]:
            self.add_op(member, number, accumulators)
        ends = self.union([c[1] for c in carried])
        self.nodes.append(
            _Node(op, ends, (), f"end of the loop at {where}", loop=number, stays=True)
        )
        results = [
            *(
                self.add_value(c[3], 0, where, alias_of=v)
                for c, v in zip(inside, held, strict=True)
            ),
            *(self.add_value(c[3], self.size(c[3]), where) for c in between),
        ]
        self.nodes.append(
            _Node(op, (*held, *tokens), tuple(results), f"end of the loop at {where}")
        )

    def is_accumulated(self, argument: int, passed: int) -> bool:
        """Whether a trip writes into what it carries, and reads neither it nor what it becomes."""
        index = self.index
        op = index.definer[passed]
        return (
            len(index.uses[argument]) == len(index.uses[passed]) == 1
            and op >= 0
            and argument in index.operands[op]
            and (is_elementwise(index, op) or index.names[op] == "stablehlo.dynamic_update_slice")
        )

    # -- ops -----------------------------------------------------------------------------------

    def written_in(self, block: int) -> set[int]:
        index = self.index
        if self.schedule is None:
            written = written_by_rule(index, block)
        else:
            written = {op for op in index.blocks[block][:-1] if op in self.instances}
        kept = [*index.operands[index.blocks[block][-1]], *self.origin.values()]
        makers = {index.definer[v] for v in kept}
        return written | {op for op in makers if op >= 0 and index.block[op] == block}

    def add_op(self, op: int, loop: int | None, accumulators: dict[int, int] | None = None) -> None:
        """An op in program order: of its cluster, unless it is written by itself."""
        index = self.index
        results = index.results[op]
        if any(v in self.origin for v in results):
            for v in results:
                self.sources[v] = self.union([self.origin[v]])
            return
        reads = tuple(dict.fromkeys(index.reads(op)))
        operands = self.union(reads)
        cluster = frozenset({op}).union(
            *(self.cluster.get(v, ()) for v in reads if v not in self.value_of)
        )
        if len(cluster) > _MAX_CLUSTER:
            cluster = frozenset({op})
        if op in self.written and not (self.is_ordered and loop is None and op in self.instances):
            self.add_node(op, operands, cluster, loop, accumulators or {})
        else:
            for v in results:
                self.sources[v], self.cluster[v] = operands, cluster

    def add_written(self, op: int, at: int) -> None:
        """Something that XLA's schedule writes, for the first time or again."""
        results = self.index.results[op]
        is_first = self.instances[op][0] == at
        if not (is_first or len(results) == 1):
            return
        operands, cluster = self.as_scheduled(op, at) or (
            self.union(results) if is_first else (),
            frozenset({op}),
        )
        if is_first:
            self.add_node(op, operands, cluster, None, {})
        elif operands:
            assert self.schedule is not None
            made = self.new_value(results[0], self.schedule.written[at].bytes, self.describe(op))
            self.add_cluster(op, operands, cluster, None, [made])
            self.instance_value[at] = made

    def add_node(
        self,
        op: int,
        operands: tuple[int, ...],
        cluster: frozenset[int],
        loop: int | None,
        accumulators: dict[int, int],
    ) -> None:
        made = []
        for v in self.index.results[op]:
            alias = accumulators.get(v)
            if alias is not None and alias not in operands:
                alias = None
            size = 0 if alias is not None else self.size(v)
            made.append(self.add_value(v, size, self.describe(op), alias_of=alias))
        self.add_cluster(op, operands, cluster, loop, made)

    def add_cluster(
        self,
        op: int,
        operands: tuple[int, ...],
        cluster: frozenset[int],
        loop: int | None,
        made: list[int],
    ) -> None:
        trips = 1 if loop is None else self.scans[loop].trips
        self.nodes.append(
            _Node(
                op,
                operands,
                tuple(made),
                self.describe(op),
                cost=trips * self.seconds(cluster, operands, made),
                flops=trips * sum(map(self.flops_of, cluster)),
                is_recomputable=self.may_run_again(op, loop),
                in_place=self.in_place(op, operands, made),
                loop=loop,
                stays=self.impure[op],
                cluster=cluster,
            )
        )

    def may_run_again(self, op: int, loop: int | None) -> bool:
        """Backward loops run nothing of themselves again."""
        is_backward = loop is not None and self.scans[loop].frame is not None
        return not (self.impure[op] or is_backward or self.index.names[op] in _FENCES)

    def read_schedule(self) -> None:
        """What XLA writes for each op, as indices into its schedule."""
        for at, written in enumerate(self.schedule.written if self.schedule else ()):
            self.instances.setdefault(written.op, []).append(at)

    def as_scheduled(self, op: int, at: int) -> tuple[tuple[int, ...], frozenset[int]] | None:
        """What XLA reads for what it writes, and the ops that it runs from there; None where it
        isn't known or has no counterpart here. XLA may compute in a fusion what it has written for
        others."""
        assert self.schedule is not None
        written = self.schedule.written[at]
        if written.reads is None:
            return None
        index = self.index
        (block,) = index.nested_blocks[-1]
        read = {}  # for the ops that are read the value that they made
        for i in written.reads:
            read[self.schedule.written[i].op] = self.instance_value.get(i)
        cluster = {op}
        todo = list(index.reads(op))
        stops: set[int] = set()
        while todo:
            v = todo.pop()
            made = self.value_of.get(v)
            maker = index.definer[v]
            if made is not None and (maker in read or maker < 0 or not is_fused(index, maker)):
                again = read.get(maker)
                stops.add(made if again is None else again)
            elif maker in self.scan_of or (maker < 0 and v in self.sources):
                stops.update(self.union([v]))
            elif maker < 0 or index.block[maker] != block:
                return None
            elif maker not in cluster:
                cluster.add(maker)
                if len(cluster) > _MAX_CLUSTER:
                    return None
                todo += index.reads(maker)
        return tuple(sorted(stops)), frozenset(cluster)

    def in_place(
        self, op: int, operands: Sequence[int], made: Sequence[int]
    ) -> tuple[tuple[int, int], ...]:
        """Of an elementwise op one operand of its size: XLA writes the result over it."""
        name = self.index.names[op]
        if len(made) != 1 or not (
            is_elementwise(self.index, op) or name == "stablehlo.dynamic_update_slice"
        ):
            return ()
        size = self.values[made[0]].bytes
        if self.values[made[0]].alias_of is not None:
            return ()
        return tuple(
            (v, made[0])
            for v in operands
            if self.values[v].bytes == size > 0 and self.values[v].alias_of is None
        )

    def flops_of(self, op: int) -> float:
        index = self.index
        total = flops(index.ops[op], index.names[op])
        if index.end[op] > op + 1 and index.names[op] in (
            "stablehlo.while",
            "stablehlo.case",
            "stablehlo.if",
            "sdy.manual_computation",
        ):
            trips = (self.loops.trips(op) or 1) if index.names[op] == LOOP else 1
            inner = [m for b in index.nested_blocks[op] for m in index.blocks[b][:-1]]
            total += trips * sum(map(self.flops_of, inner))
        return total

    def seconds(
        self, cluster: Iterable[int], operands: Iterable[int], made: Iterable[int]
    ) -> float:
        target = self.target
        products = others = 0.0
        for i in cluster:
            if self.index.names[i] in PRODUCTS:
                half = is_half(self.index.ops[i])
                products += self.flops_of(i) / (target.half_dot_flops if half else target.dot_flops)
            else:
                others += self.flops_of(i) / target.vector_flops
        moved = sum(self.values[v].bytes for v in (*operands, *made))
        return max(products, others, moved / target.bandwidth) + target.overhead

    # -- values --------------------------------------------------------------------------------

    def size(self, value: int) -> int:
        size = size_in_bytes(self.index.values[value].type)
        op = self.index.definer[value]
        if self.schedule is not None and op >= 0 and len(self.index.results[op]) == 1:
            instances = self.instances.get(op)
            return min(size, self.schedule.written[instances[0]].bytes) if instances else size
        return size

    def new_value(self, value: int, bytes_: int, name: str, **options: object) -> int:
        self.values.append(Value(bytes_, name, **options))  # type: ignore[arg-type]
        self.made.append(value)
        return len(self.values) - 1

    def add_value(self, value: int, bytes_: int, name: str, **options: object) -> int:
        made = self.value_of[value] = self.new_value(value, bytes_, name, **options)
        self.sources[value] = (made,)
        return made

    def union(self, values: Iterable[int]) -> tuple[int, ...]:
        """The graph's values that `values` are made of."""
        found: dict[int, None] = {}
        for v in values:
            if v not in self.sources:
                v = self.loops.outer(v)
            found.update(dict.fromkeys(self.sources.get(v, ())))
        return tuple(found)

    def describe(self, op: int) -> str:
        name = self.index.names[op].partition(".")[2]
        return f"{name} at {describe_location(self.index.ops[op].location)}"

    def finish(
        self, order: list[int], outputs: set[int], reads: dict[int, list[tuple[int, int]]]
    ) -> Program:
        """Leaves out what nothing needs."""
        needed = set(outputs)
        for v in outputs:
            while (alias := self.values[v].alias_of) is not None:
                v = alias
                needed.add(v)
        needed_outputs = set(needed)
        kept = []
        for node in reversed(self.nodes):
            if node.stays or not needed.isdisjoint(node.results):
                needed.update(node.operands)
                kept.append(node)
        kept.reverse()
        arguments: Any = {
            v for v, m in enumerate(self.made) if m >= 0 and self.index.definer[m] == -1
        }
        used = sorted({v for n in kept for v in (*n.operands, *n.results)} | arguments)
        renumbered = {v: k for k, v in enumerate(used)}

        inits = self.inits_of(needed_outputs, kept)
        outside = arguments | needed_outputs | inits.keys()
        rooms = {v: self.values[v].bytes for v in needed_outputs}
        rooms |= dict.fromkeys(inits.values(), 0) | {v: rooms[r] for v, r in inits.items()}

        def value(v: int) -> Value:
            alias = self.values[v].alias_of
            return dataclasses.replace(
                self.values[v],
                bytes=0 if v in outside else self.values[v].bytes,
                is_output=v in outputs,
                alias_of=None if alias is None else renumbered[alias],
            )

        def new(values: Iterable[int]) -> tuple[int, ...]:
            return tuple(renumbered[v] for v in values)

        ops = tuple(
            Op(
                n.cost,
                new(n.operands),
                new(n.results),
                n.name,
                n.is_recomputable,
                in_place=tuple(
                    (renumbered[a], renumbered[b]) for a, b in n.in_place if not outside & {a, b}
                ),
                loop=n.loop,
            )
            for n in kept
        )
        replays = [None if s.frame is None else self.number[s.frame.forward] for s in self.scans]
        loops = tuple(
            Loop(s.trips, replayed) for s, replayed in zip(self.scans, replays, strict=True)
        )
        graph = Graph(tuple(map(value, used)), ops, loops)
        return Program(
            self.index,
            self.pairing,
            graph,
            order,
            [n.op for n in kept],
            {m: renumbered[v] for m, v in self.value_of.items() if v in renumbered},
            [self.made[v] for v in used],
            self.scans,
            reads,
            [n.cluster for n in kept],
            [n.flops for n in kept],
            {renumbered[v]: size for v, size in rooms.items() if v in renumbered},
        )

    def inits_of(self, outputs: set[int], kept: list[_Node]) -> dict[int, int]:
        """What loops start with and write over, for those of `outputs` that they make so: it is in
        the same memory from the start."""
        readers = Counter(v for n in kept for v in set(n.operands))
        found: dict[int, int] = {}
        for node in kept:
            is_loop = not node.cluster
            for init, held in node.in_place if is_loop else ():
                is_argument = self.made[init] >= 0 and self.index.definer[self.made[init]] < 0
                if held in outputs and readers[init] == 1 and not is_argument:
                    found.setdefault(init, held)
        return found
