# SPDX-License-Identifier: Apache-2.0
"""Graphs from JSON files, in the two forms that published ones have."""

from __future__ import annotations

import heapq
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from hlo_remat.errors import GraphError
from hlo_remat.planner.graph import Graph, Op, Value


def load(path: str | pathlib.Path) -> Graph:
    """The graph in a JSON file, in node-link or index-list form.

    Raises `GraphError`, one line, where it is neither or no program.
    """
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise GraphError(f"{path}: {reason}") from None
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise GraphError(f"{path}: not JSON: {error}") from None
    try:
        return parse(data)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def parse(data: Any) -> Graph:
    """The graph in parsed JSON, in either form. Raises `GraphError`."""
    if isinstance(data, dict) and "nodes" in data and ("links" in data or "edges" in data):
        return from_node_link(data)
    if isinstance(data, dict) and {"size", "flops", "pred", "need"} <= data.keys():
        return from_index_lists(data)
    raise GraphError(
        "neither a node-link graph (nodes, links) nor index lists (size, flops, pred, need)"
    )


def from_node_link(data: dict[str, Any]) -> Graph:
    """A training graph in networkx's node-link form, as Checkmate's were published with Moccasin.

    Each node is an op with one result: `cost_ram` bytes, made at `cost_cpu`, any unit. A link's
    target reads its source. The program's order is that of the ids, else that of the file,
    whichever the links allow first, else the first topological order of the ids. Where nodes say
    which are `backward`, the boundary is at the first of them.
    """
    nodes = _records(data["nodes"], "nodes")
    links = _records(data.get("links", data.get("edges")), "links")
    ids: dict[Any, int] = {}
    for i, node in enumerate(nodes):
        if "id" not in node:
            raise GraphError(f"node {i} has no id")
        if not isinstance(node["id"], (int, str)):
            raise GraphError(f"node {i}: id {node['id']!r} is neither a number nor a name")
        if node["id"] in ids:
            raise GraphError(f"two nodes have the id {node['id']!r}")
        ids[node["id"]] = i
    readers: list[set[int]] = [set() for _ in nodes]
    reads: list[set[int]] = [set() for _ in nodes]
    for link in links:
        for end in ("source", "target"):
            if end not in link:
                raise GraphError(f"a link has no {end}")
            if not isinstance(link[end], (int, str)) or link[end] not in ids:
                raise GraphError(f"a link's {end} is {link[end]!r}, which is no node's id")
        source, target = ids[link["source"]], ids[link["target"]]
        readers[source].add(target)
        reads[target].add(source)
    order = _order(reads, readers, [node["id"] for node in nodes])
    place = {node: i for i, node in enumerate(order)}
    values, ops = [], []
    for i, index in enumerate(order):
        node = nodes[index]
        for key in ("cost_ram", "cost_cpu"):
            if key not in node:
                raise GraphError(f"node {node['id']!r} has no {key}")
        name = str(node.get("name", node["id"]))
        size = _whole(node["cost_ram"], f"node {node['id']!r}: cost_ram")
        values.append(Value(size, name))
        operands = tuple(sorted(place[r] for r in reads[index]))
        ops.append(Op(node["cost_cpu"], operands, (i,), name))
    backward = [bool(nodes[index].get("backward", False)) for index in order]
    boundary = backward.index(True) if True in backward else None
    title = data.get("graph", {})
    name = str(title.get("name", "")) if isinstance(title, dict) else ""
    return Graph(tuple(values), tuple(ops), boundary=boundary, name=name)


def from_index_lists(data: dict[str, Any]) -> Graph:
    """The forward of a joint graph as lists indexed by node, its readers in one last op.

    `size`: bytes; `flops`: cost; `pred`: operands; `isin`: inputs, saved for nothing; `isview`:
    views of their first operand that aren't one already; `need`: the nodes that the backward reads,
    `names`. Nodes of no bytes that aren't views cost nothing to save.
    """
    count = len(_list(data, "size"))
    lists = {key: _list(data, key, count) for key in ("size", "flops", "pred")}
    is_input = _list(data, "isin", count) if "isin" in data else [not p for p in lists["pred"]]
    is_view = _list(data, "isview", count) if "isview" in data else [False] * count
    names = _list(data, "names", count) if "names" in data else [str(i) for i in range(count)]
    values, ops = [], []
    for i in range(count):
        operands = _indices(lists["pred"][i], f"pred[{i}]", count)
        alias = operands[0] if is_view[i] and operands and not is_input[i] else None
        size = _whole(lists["size"][i], f"size[{i}]")
        values.append(Value(size, str(names[i]), alias_of=alias))
        if not is_input[i]:
            ops.append(Op(lists["flops"][i], operands, (i,), str(names[i])))
    need = _indices(_list(data, "need"), "need", count)
    ops.append(Op(0.0, need, (), "backward"))
    return Graph(tuple(values), tuple(ops), boundary=len(ops) - 1)


def _order(reads: list[set[int]], readers: list[set[int]], ids: list[Any]) -> list[int]:
    """The nodes in program order."""

    def key(node: int) -> tuple[bool, Any]:
        return isinstance(ids[node], str), ids[node]

    for order in (sorted(range(len(ids)), key=key), list(range(len(ids)))):
        place = {node: i for i, node in enumerate(order)}
        if all(place[r] < place[node] for node, found in enumerate(reads) for r in found):
            return order
    waiting = [len(r) for r in reads]
    ready = [(key(node), node) for node, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (key(reader), reader))
    if len(order) < len(reads):
        stuck = min((key(n), n) for n, count in enumerate(waiting) if count > 0)[1]
        raise GraphError(f"a cycle of links reaches node {ids[stuck]!r}")
    return order


def _records(items: Any, what: str) -> Sequence[dict[str, Any]]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise GraphError(f"{what} isn't a list of objects")
    return items


def _list(data: dict[str, Any], key: str, count: int | None = None) -> list[Any]:
    items = data[key]
    if not isinstance(items, list):
        raise GraphError(f"{key} isn't a list")
    if count is not None and len(items) != count:
        raise GraphError(f"{key} has {len(items)} entries, size has {count}")
    return items


def _indices(items: Any, what: str, count: int) -> tuple[int, ...]:
    if not isinstance(items, list):
        raise GraphError(f"{what} isn't a list")
    for i in items:
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < count:
            raise GraphError(f"{what} names {i!r}, which is no node")
    return tuple(dict.fromkeys(items))


def _whole(number: Any, what: str) -> int:
    """Bytes as an integer; what isn't a number is left for `Graph` to refuse."""
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise GraphError(f"{what} is {number!r}; it must be a finite number of at least 0")
    return number  # type: ignore[return-value]
