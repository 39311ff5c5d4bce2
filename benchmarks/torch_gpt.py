# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own partitioner on a 12-layer GPT, beside the planner at the bytes that it saves:

    python3 benchmarks/torch_gpt.py [--write torch_gpt12.json]

Needs torch 2.13.0. The joint graph is traced with AOTAutograd on CPU; the partitioner's result is
read from the arguments of the backward that it makes.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import time
from typing import Any

import torch
import torch._functorch.config as config
from torch._functorch.aot_autograd import aot_module, make_boxed_func
from torch._functorch.partitioners import (
    estimate_runtime,
    min_cut_rematerialization_partition,
)

from hlo_remat.planner import tradeoff
from hlo_remat.planner.formats import parse

LAYERS, WIDTH, HEADS, BATCH, LENGTH, WORDS = 12, 256, 4, 4, 256, 1024
BUDGETS = (0.3, 0.2, 0.1, 0.05)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.project = torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH).tril().bool())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
        q, k, v = (
            t.view(shape).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        weights = scores.masked_fill(~self.mask, -math.inf).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + self.project(y)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).view(-1, WORDS)
        return torch.nn.functional.cross_entropy(logits, tokens.view(-1))


def partitioned(budget: float) -> tuple[Any, Any, Any, float]:
    """The joint graph, the forward and backward that torch makes of it, and its seconds."""
    found: list[Any] = []

    def partition(joint: Any, inputs: Any, **options: Any) -> Any:
        start = time.perf_counter()
        forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
        found[:] = [joint, forward, backward, time.perf_counter() - start]
        return forward, backward

    torch.manual_seed(0)
    with config.patch(activation_memory_budget=budget):
        compiled = aot_module(
            Net(),
            fw_compiler=lambda graph, _: make_boxed_func(graph),
            bw_compiler=lambda graph, _: make_boxed_func(graph),
            partition_fn=partition,
        )
        tokens = torch.randint(0, WORDS, (BATCH, LENGTH))
        compiled(tokens).backward()
    return tuple(found)  # type: ignore[return-value]


def size_of(node: Any) -> int:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return 0


def shares_memory(a: Any, b: Any) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def forward_nodes(joint: Any) -> list[Any]:
    """The joint graph's nodes that need no cotangent."""
    is_backward = {n for n in joint.graph.nodes if "tangents" in n.name}
    for node in joint.graph.nodes:
        if any(a in is_backward for a in node.all_input_nodes):
            is_backward.add(node)
    return [n for n in joint.graph.nodes if n.op != "output" and n not in is_backward]


def index_lists(joint: Any) -> dict[str, list[Any]]:
    """The joint graph's forward as lists; `need` are the nodes that the rest reads."""
    nodes = forward_nodes(joint)
    is_forward = set(nodes)
    is_backward = [n for n in joint.graph.nodes if n.op != "output" and n not in is_forward]
    place = {n: i for i, n in enumerate(nodes)}
    need = sorted({place[a] for n in is_backward for a in n.all_input_nodes if a in place})
    is_input = [n.op in ("placeholder", "get_attr") for n in nodes]
    views = [
        None if i else next((a for a in n.all_input_nodes if shares_memory(a, n)), None)
        for n, i in zip(nodes, is_input, strict=True)
    ]
    return {
        "size": [size_of(n) for n in nodes],
        "flops": [_flops(n) for n in nodes],
        # What a view looks into comes first.
        "pred": [
            [place[a] for a in sorted(n.all_input_nodes, key=lambda a: a is not v)]
            for n, v in zip(nodes, views, strict=True)
        ],
        "isin": is_input,
        "isview": [v is not None for v in views],
        "names": [str(n.target) for n in nodes],
        "need": need,
    }


def _flops(node: Any) -> float:
    """What torch's partitioner counts; it says 1 where there are none."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return 0.0
    if node.target is operator.getitem:
        return 0.0
    flops = float(estimate_runtime(node))
    return 0.0 if flops == 1 else flops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", metavar="FILE", help="the graph as index lists")
    arguments = parser.parse_args()
    joint = partitioned(1.0)[0]
    lists = index_lists(joint)
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            json.dump(lists, file)
    graph = parse(lists)
    forward_flops = sum(lists["flops"])
    print(f"\ntorch {torch.__version__}, 12-layer GPT, traced here: {len(lists['size'])} nodes\n")
    print("| budget | MB | torch | s | ours | bound | s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    names = [n.name for n in forward_nodes(joint)]
    root = list(range(len(names)))
    for i, is_view in enumerate(lists["isview"]):
        if is_view:
            root[i] = root[lists["pred"][i][0]]
    place = {name: i for i, name in enumerate(names)}
    for budget in BUDGETS:
        _, _, backward, seconds = partitioned(budget)
        kept = {
            root[place[n.name]]
            for n in backward.graph.nodes
            if n.op == "placeholder" and n.name in place
        }
        saved = sum(lists["size"][i] for i in kept if not lists["isin"][i])
        again = sum(
            lists["flops"][place[n.name]]
            for n in backward.graph.nodes
            if n.op == "call_function" and n.name in place
        )
        found = tradeoff(graph, saved_bytes=saved)
        assert found is not None
        print(
            f"| {budget} | {saved / 1e6:.2f} | {100 * again / forward_flops:.2f} | {seconds:.1f} "
            f"| {100 * found.recompute_fraction:.2f} | {100 * found.lower_bound_fraction:.2f} "
            f"| {found.seconds:.2f} |"
        )


if __name__ == "__main__":
    main()
