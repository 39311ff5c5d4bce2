# SPDX-License-Identifier: Apache-2.0
"""Where each region's forward lies: pairing of markers, and the values between them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.markers import Decision, Kind, Marker, MarkerError, is_marker


def read_markers(index: Index, diagnostics: Diagnostics) -> dict[int, Marker]:
    """The markers of a function by op. A marker that breaks the specification is an error."""
    markers = {}
    for i, name in enumerate(index.names):
        if name == "stablehlo.composite" and is_marker(index.ops[i]):
            try:
                markers[i] = Marker(index.ops[i])
            except MarkerError as error:
                diagnostics.error(index.ops[i].location, str(error))
    return markers


class Aliases:
    """Looks through markers: a result of a marker is one of its operands."""

    def __init__(self, index: Index, markers: dict[int, Marker]):
        self.index = index
        self.markers = markers

    def step(self, value: int) -> int | None:
        """The operand that `value` is identical to, None where no marker returns it."""
        op = self.index.definer[value]
        marker = self.markers.get(op)
        if marker is None or marker.kind is Kind.RECOMPUTE:
            return None
        return self.index.operands[op][marker.operand_of(self.index.results[op].index(value))]

    def chain(self, value: int) -> Iterator[int]:
        """`value`, what it is identical to, and so on up to the value that is really made."""
        current: int | None = value
        while current is not None:
            yield current
            current = self.step(current)

    def origin(self, value: int) -> int:
        """The forward definition of a value read in the backward."""
        while True:
            op = self.index.definer[value]
            marker = self.markers.get(op)
            if marker is None or marker.kind is not Kind.BWD_ENTER:
                return value
            result = self.index.results[op].index(value)
            if result < len(marker.values):
                return value
            value = self.index.operands[op][marker.operand_of(result)]

    def is_inert(self, use: Use) -> bool:
        """Whether a use only tells regions apart, or names what is going to be recomputed."""
        op, operand = use
        marker = self.markers.get(op)
        if marker is None:
            return False
        if marker.result_of(operand) is None:
            return True
        first = len(marker.values) + len(marker.inputs)
        return (
            marker.kind is Kind.BWD_ENTER
            and operand >= first
            and marker.decisions[operand - first] is Decision.RECOMPUTE
        )


def pair_regions(index: Index, markers: dict[int, Marker]) -> dict[int, int | None]:
    """For each bwd_enter the enter of its region: the one with the same raw inputs.

    Where several regions have the same inputs, the backward runs through them in reverse order.
    None where the block has no such enter. A wrong pair would cost memory, never correctness.
    """
    enters: dict[tuple[int, ...], list[int]] = defaultdict(list)
    backwards: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, marker in markers.items():
        if marker.kind is Kind.ENTER:
            enters[index.block[i], *index.operands[i]].append(i)
        elif marker.kind is Kind.BWD_ENTER:
            inputs = index.operands[i][len(marker.values) :][: len(marker.inputs)]
            backwards[index.block[i], *inputs].append(i)
    pairs: dict[int, int | None] = {}
    for key, group in backwards.items():
        for rank, i in enumerate(group):
            candidates = [e for e in enters[key] if e < i]
            if not candidates:
                pairs[i] = None
            else:
                pairs[i] = candidates[-1 - rank] if rank < len(candidates) else candidates[0]
    return pairs


@dataclasses.dataclass(frozen=True)
class Forward:
    """The forward of one region as its backward, which starts at `bwd_enter`, sees it.

    `ops` depend on the region's inputs and come before `bwd_enter`; `residual_uses` are the
    places after it that read values of the forward, by value.
    """

    enter: int
    bwd_enter: int
    ops: frozenset[int]
    inputs: tuple[int, ...]
    residual_uses: dict[int, list[Use]]


def forward_of(
    index: Index,
    aliases: Aliases,
    enter: int,
    bwd_enter: int,
    is_live: list[bool],
) -> Forward:
    """Follows the uses of the region's inputs up to its exit and to the backward."""
    block = index.block[enter]
    inputs = tuple(index.operands[enter])
    ops: set[int] = set()
    residual_uses: dict[int, list[Use]] = defaultdict(list)
    todo = list(index.results[enter])
    seen = set(todo)

    def reach(values: Iterable[int]) -> None:
        for v in values:
            if v not in seen:
                seen.add(v)
                todo.append(v)

    while todo:
        value = todo.pop()
        for use in index.uses[value]:
            op = index.in_block(use[0], block)
            if op > bwd_enter:
                if is_live[use[0]] and not aliases.is_inert(use) and not _ends(index, block, op):
                    residual_uses[value].append(use)
                continue
            marker = aliases.markers.get(op)
            if marker is None:
                ops.add(op)
                reach(index.results[op])
            elif op != bwd_enter and not _closes(index, marker, op, inputs):
                result = marker.result_of(use[1])
                if result is not None:
                    ops.add(op)
                    reach([index.results[op][result]])
    return Forward(enter, bwd_enter, frozenset(ops), inputs, dict(residual_uses))


def _ends(index: Index, block: int, op: int) -> bool:
    return op == index.blocks[block][-1]


def _closes(index: Index, marker: Marker, op: int, inputs: tuple[int, ...]) -> bool:
    if marker.kind in (Kind.ENTER, Kind.NAME):
        return False
    first = len(marker.values)
    return tuple(index.operands[op][first : first + len(marker.inputs)]) == inputs


def live_ops(index: Index, aliases: Aliases, impure: list[bool]) -> list[bool]:
    """For each op whether the function's results or effects depend on it."""
    live = [False] * len(index.ops)
    live_value = [False] * len(index.values)
    last = {members[-1] for members in index.blocks if members}
    for i in range(len(index.ops) - 1, -1, -1):
        results = index.results[i]
        for v in results:
            uses = index.uses[v]
            live_value[v] = any(_is_live_use(index, aliases, u, live, live_value) for u in uses)
        live[i] = impure[i] or i in last or any(live_value[v] for v in results)
    return live


def _is_live_use(
    index: Index, aliases: Aliases, use: Use, live: list[bool], live_value: list[bool]
) -> bool:
    op, operand = use
    marker = aliases.markers.get(op)
    if marker is None or marker.kind is Kind.RECOMPUTE:
        return live[op]
    result = marker.result_of(operand)
    return result is not None and live_value[index.results[op][result]]


def constant_ops(index: Index, impure: list[bool]) -> list[bool]:
    """For each op whether it is pure and depends on nothing but constants."""
    constant = [False] * len(index.ops)
    for i in range(len(index.ops)):
        constant[i] = not impure[i] and all(
            index.definer[v] >= 0 and constant[index.definer[v]] for v in index.reads(i)
        )
    return constant
