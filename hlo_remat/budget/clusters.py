# SPDX-License-Identifier: Apache-2.0
"""Which ops XLA writes to memory, and in which order it runs them: as a schedule of XLA's says, or
by rule where there is none."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from hlo_remat.cost.flops import is_transcendental
from hlo_remat.ir.index import Index

# Ops that XLA computes where they are read. Of all others it writes the results to memory.
_FUSED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert",
        "broadcast_in_dim",
        "constant",
        "convert",
        "dynamic_slice",
        "get_dimension_size",
        "iota",
        "pad",
        "partition_id",
        "reduce_precision",
        "reshape",
        "reverse",
        "slice",
        "transpose",
        "tuple",
        "get_tuple_element",
        "concatenate",
    )
)
_SHAPING = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.bitcast_convert"})
_MANY = -2


def is_elementwise(index: Index, op: int) -> bool:
    """Whether an op computes each element of its result from those at the same place of what it
    reads: by its types, for StableHLO's ops have no such trait."""
    if index.end[op] != op + 1 or len(index.results[op]) != 1 or not index.operands[op]:
        return False
    if not index.names[op].startswith(("stablehlo.", "chlo.")) or index.names[op] in _ANCHORS:
        return False
    shape = _shape(index, index.results[op][0])
    return all(_shape(index, v) in (shape, ()) for v in index.operands[op])


# Of the shape of what they read, and yet not element by element.
_ANCHORS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_reduce",
        "all_to_all",
        "batch_norm_inference",
        "cholesky",
        "collective_broadcast",
        "collective_permute",
        "custom_call",
        "composite",
        "dot_general",
        "dynamic_update_slice",
        "fft",
        "optimization_barrier",
        "reverse",
        "reduce_scatter",
        "rng",
        "rng_bit_generator",
        "scatter",
        "sort",
        "triangular_solve",
        "convolution",
    )
)


def is_fused(index: Index, op: int) -> bool:
    """Whether XLA may compute an op where its result is read."""
    return index.names[op] in _FUSED or is_elementwise(index, op)


def _shape(index: Index, value: int) -> tuple[int, ...] | None:
    shape = getattr(index.values[value].type, "shape", None)
    return None if shape is None else tuple(shape)


def written_by_rule(index: Index, block: int) -> set[int]:
    """The ops of a block whose results are in memory: what isn't fused; what such ops read, but
    reductions, and what the block returns; and what is expensive and read in several places."""
    members = index.blocks[block]
    root = dict.fromkeys(members, -1)  # the one op that is written from it, or many
    written: set[int] = set()
    for op in reversed(members):
        name = index.names[op]
        users = {index.in_block(u, block) for v in index.results[op] for u, _ in index.uses[v]}
        roots = {u if u in written or u == members[-1] else root[u] for u in users}
        is_read = any(
            not is_fused(index, u) and index.names[u] != "stablehlo.reduce" for u in users
        )
        shares = len(roots) > 1 or _MANY in roots
        is_made = bool(index.operands[op]) and name not in _SHAPING
        if not is_fused(index, op) or (
            is_made and (is_read or (shares and is_transcendental(name)))
        ):
            written.add(op)
        elif is_read and name in _SHAPING:
            written.update(_before_shaping(index, op))
        root[op] = _MANY if shares else next(iter(roots), -1)
    return written - {members[-1]}


def _before_shaping(index: Index, op: int) -> set[int]:
    """What a reshape or a transpose is of: it is in memory for the op that reads it so."""
    while op >= 0 and index.names[op] in _SHAPING:
        op = index.definer[index.operands[op][0]]
    return {op} if op >= 0 and index.operands[op] else set()


def order_of(
    index: Index, block: int, place: Mapping[int, int], impure: list[bool]
) -> tuple[list[int], dict[int, int]]:
    """The ops of a block, without its terminator, in the order of `place` as far as data and
    effects allow, and for each op the place by which it is needed: its own, or that of the first op
    that reads it. `twin_of` gives for an op the one that it repeats, which comes before it."""
    members = index.blocks[block][:-1]
    never = 1 + max(place.values(), default=0)
    before: dict[int, set[int]] = {}
    after: dict[int, list[int]] = {op: [] for op in members}
    last_effect = -1
    for op in members:
        makers = {index.in_block(index.definer[v], block) for v in index.reads(op)}
        before[op] = {m for m in makers if m >= 0 and m != op}
        if impure[op]:
            if last_effect >= 0:
                before[op].add(last_effect)
            last_effect = op
        for m in before[op]:
            after[m].append(op)
    key: dict[int, int] = {}
    for op in reversed(members):
        key[op] = min([place.get(op, never), *(key[u] for u in after[op])])
    ready = [(key[op], op) for op in members if not before[op]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, op = heapq.heappop(ready)
        order.append(op)
        for user in after[op]:
            before[user].discard(op)
            if not before[user]:
                heapq.heappush(ready, (key[user], user))
    return order, key
