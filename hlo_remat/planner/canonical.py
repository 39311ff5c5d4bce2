# SPDX-License-Identifier: Apache-2.0
"""One form for all graphs that differ in units, names and numbering alone, so that solvers, which
break ties by number, give them one plan."""

from __future__ import annotations

import dataclasses
import math

from hlo_remat.planner.graph import Graph


def canonical(graph: Graph) -> tuple[Graph, int, float]:
    """The same program with values numbered in the order in which ops touch them, bytes in units of
    their greatest common divisor and costs in units of the highest; and these two units."""
    number: dict[int, int] = {}
    for op in graph.ops:
        for v in (*op.operands, *op.results):
            number.setdefault(v, len(number))
    for v in range(len(graph.values)):
        number.setdefault(v, len(number))
    unit = math.gcd(*(v.bytes for v in graph.values), *(op.workspace for op in graph.ops)) or 1
    top = max((op.cost for op in graph.ops), default=0.0) or 1.0
    values = sorted(range(len(graph.values)), key=number.__getitem__)
    return (
        Graph(
            tuple(
                dataclasses.replace(
                    graph.values[v],
                    bytes=graph.values[v].bytes // unit,
                    name="",
                    alias_of=_through(number, graph.values[v].alias_of),
                )
                for v in values
            ),
            tuple(
                dataclasses.replace(
                    op,
                    # Rounded, so that another unit of cost gives the same digits.
                    cost=float(f"{op.cost / top:.12g}"),
                    operands=tuple(number[v] for v in op.operands),
                    results=tuple(number[v] for v in op.results),
                    name="",
                    workspace=op.workspace // unit,
                    in_place=tuple((number[a], number[b]) for a, b in op.in_place),
                )
                for op in graph.ops
            ),
            graph.loops,
            graph.boundary,
        ),
        unit,
        top,
    )


def _through(number: dict[int, int], value: int | None) -> int | None:
    return None if value is None else number[value]
