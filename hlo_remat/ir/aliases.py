# SPDX-License-Identifier: Apache-2.0
"""Values under several names: a result of a marker is one of its operands."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_remat.ir.index import Index, Use
from hlo_remat.ir.markers import Decision, Kind, Marker


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

    def made(self, value: int) -> int:
        """What `value` is identical to and no marker returns."""
        *_, last = self.chain(value)
        return last

    def before_backward(self, value: int) -> int:
        """What `value` is outside the backwards that it was handed into."""
        for op in self.backwards_into(value):
            value = self._before(op, value)
        return value

    def backwards_into(self, value: int) -> Iterator[int]:
        """The bwd_enters that `value` was handed through, from the innermost."""
        while True:
            op = self.index.definer[value]
            marker = self.markers.get(op)
            if marker is None or marker.kind is not Kind.BWD_ENTER:
                return
            if self.index.results[op].index(value) < len(marker.values):
                return
            yield op
            value = self._before(op, value)

    def _before(self, op: int, value: int) -> int:
        result = self.index.results[op].index(value)
        return self.index.operands[op][self.markers[op].operand_of(result)]

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
