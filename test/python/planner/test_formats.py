# SPDX-License-Identifier: Apache-2.0
"""Graphs from files: both forms, and one clear line for what is neither."""

from __future__ import annotations

import copy
import json
import pathlib
import random
from typing import Any

import pytest

from hlo_remat.errors import GraphError
from hlo_remat.planner import Graph, Loop, Op, Value, load, simulate, solve, tradeoff
from hlo_remat.planner.formats import parse

NODE_LINK: dict[str, Any] = {
    "directed": True,
    "graph": {"name": "tiny"},
    "nodes": [
        {"id": 0, "name": "a", "backward": False, "cost_ram": 4, "cost_cpu": 1},
        {"id": 1, "name": "b", "backward": False, "cost_ram": 4, "cost_cpu": 2},
        {"id": 2, "name": "c", "backward": False, "cost_ram": 1, "cost_cpu": 2},
        {"id": 3, "name": "db", "backward": True, "cost_ram": 4, "cost_cpu": 3},
        {"id": 4, "name": "da", "backward": True, "cost_ram": 1, "cost_cpu": 3},
    ],
    "links": [
        {"source": s, "target": t} for s, t in [(0, 1), (1, 2), (2, 3), (1, 3), (3, 4), (0, 4)]
    ],
}
INDEX_LISTS: dict[str, Any] = {
    "size": [8, 4, 4, 4, 2],
    "flops": [0, 1.0, 0, 5, 1],
    "pred": [[], [0], [1], [2], [3]],
    "isin": [True, False, False, False, False],
    "isview": [False, False, True, False, False],
    "names": ["x", "a", "view", "b", "c"],
    "need": [2, 3, 4],
}


def test_node_link_graphs_keep_the_order_of_their_ids() -> None:
    graph = parse(NODE_LINK)
    assert [op.name for op in graph.ops] == ["a", "b", "c", "db", "da"]
    assert (graph.boundary, graph.name) == (3, "tiny")
    assert simulate(graph).memory.tolist() == [4, 8, 9, 13, 9]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_the_file_does_not_matter(seed: int) -> None:
    shuffled = copy.deepcopy(NODE_LINK)
    random.Random(seed).shuffle(shuffled["nodes"])
    random.Random(seed).shuffle(shuffled["links"])
    assert parse(shuffled).ops == parse(NODE_LINK).ops


@pytest.mark.parametrize("seed", range(5))
def test_the_ids_do_not_matter_where_the_file_is_in_order(seed: int) -> None:
    """Ids that are no topological order: the file's order is the program's."""
    data = copy.deepcopy(NODE_LINK)
    ids = list(range(10, 15))
    random.Random(seed).shuffle(ids)
    for node in data["nodes"]:
        node["id"] = ids[node["id"]]
    for link in data["links"]:
        link["source"], link["target"] = ids[link["source"]], ids[link["target"]]
    assert parse(data).ops == parse(NODE_LINK).ops


def test_index_lists_save_inputs_for_nothing_and_views_not_at_all() -> None:
    graph = parse(INDEX_LISTS)
    all_saved = tradeoff(graph, saved_bytes=10)
    assert all_saved is not None
    assert (all_saved.saved_bytes, all_saved.cost) == (10, 0.0)
    nothing = tradeoff(graph, saved_bytes=0)
    assert nothing is not None
    assert (nothing.saved_bytes, nothing.recompute_fraction) == (0, 1.0)
    some = tradeoff(graph, cost=1.0)
    assert some is not None
    assert some.saved_bytes == 6


def _changed(data: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return changed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_changed(NODE_LINK, "links", 0, "source", to=4), "a cycle of links reaches node 1"),
        (_changed(NODE_LINK, "links", 0, "source", to=9), "a link's source is 9, which is no node"),
        (_changed(NODE_LINK, "nodes", 1, "id", to=0), "two nodes have the id 0"),
        (_changed(NODE_LINK, "nodes", 1, "cost_ram", to=-1), "bytes is -1; it must be a finite"),
        (_changed(NODE_LINK, "nodes", 1, "cost_cpu", to=float("nan")), "cost is nan"),
        (_changed(NODE_LINK, "nodes", 1, "cost_cpu", to="3"), "cost is '3'"),
        (_changed(NODE_LINK, "nodes", 1, "cost_ram", to=1.5), "bytes is 1.5, not a whole"),
        (_changed(NODE_LINK, "nodes", 1, "cost_ram", to=float("inf")), "bytes is inf"),
        (_changed(NODE_LINK, "nodes", 1, to={"id": 1}), "node 1 has no cost_ram"),
        (_changed(NODE_LINK, "nodes", to={}), "nodes isn't a list of objects"),
        (_changed(INDEX_LISTS, "pred", to=[[]]), "pred has 1 entries, size has 5"),
        (_changed(INDEX_LISTS, "pred", 1, to=[3]), "reads value b, which is made later"),
        (_changed(INDEX_LISTS, "need", to=[9]), "need names 9, which is no node"),
        (_changed(INDEX_LISTS, "flops", 1, to=-2.0), "cost is -2.0"),
        ({"layers": []}, "neither a node-link graph"),
        ([], "neither a node-link graph"),
    ],
)
def test_bad_graphs_get_one_line(data: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        parse(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"nodes": [', "", "\x00", "nodes: []", "[" * 100_000])
def test_what_is_not_json_gets_one_line(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "graph.json"
    path.write_text(text)
    with pytest.raises(GraphError, match=r"graph\.json: not JSON"):
        load(path)


def test_a_missing_file_gets_one_line(tmp_path: pathlib.Path) -> None:
    with pytest.raises(GraphError, match=r"none\.json: No such file"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("values", "ops", "loops", "message"),
    [
        ([Value(1)], [Op(1, (0,), (0,))], (), "reads value 0, which is made later"),
        ([Value(1)], [Op(1, (), (0,)), Op(1, (), (0,))], (), "value 0 is made twice"),
        ([Value(1)], [Op(1, (), (3,))], (), "makes value 3, which doesn't exist"),
        ([Value(1), Value(1, alias_of=0)], [Op(1, (), (1,))], (), "a view of value 0, which it"),
        ([Value(1), Value(2)], [Op(1, (0,), (1,), in_place=((0, 1),))], (), "sizes differ"),
        ([Value(1)], [Op(1, (), (0,), loop=0)], (), "loop 0 doesn't exist"),
        ([], [], (Loop(2), Loop(3, replays=0)), "replays loop 0 of other trips"),
    ],
)
def test_what_is_no_program_is_refused(
    values: list[Value], ops: list[Op], loops: tuple[Loop, ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(tuple(values), tuple(ops), loops)


def test_empty_graphs_are_solved() -> None:
    plan = solve(Graph((), ()), 0)
    assert plan.status.has_plan
    assert plan.extra_cost == 0


def test_json_is_strict_about_numbers(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(_changed(NODE_LINK, "nodes", 0, "cost_cpu", to=float("inf"))))
    with pytest.raises(GraphError, match="cost is inf"):
        load(path)
