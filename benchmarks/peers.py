# SPDX-License-Identifier: Apache-2.0
"""The planner beside other planners' published and measured numbers, in one run:

    python3 benchmarks/peers.py [--graphs DIR] [--only tradeoff|peak|chains|scale]

Exit code 1 where a target is missed. Costs are exact; times are of this machine.

DIR (default benchmarks/graphs) holds graphs that aren't ours to ship; tables that need one that
isn't there are left out, with a line that says so.

- unet_b32_train.json, mobilenet_b512_train.json, resnet50_b256_train.json, vgg19_b256_train.json:
  Checkmate's training graphs (MLSys 2020) as published with Moccasin (ICML 2023), node-link form.
- torch_gpt12.json: a GPT's forward as torch's partitioner sees it; `benchmarks/torch_gpt.py`
  writes it where torch is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

from hlo_remat.planner import (
    Graph,
    Op,
    Plan,
    Value,
    load,
    simulate,
    solve,
    structural_minimum,
    tradeoff,
)
from hlo_remat.planner.solvers import revolve

# torch 2.13.0, CPU: budget, bytes that it saves, its recompute in % of forward FLOPs, and the
# optimum at these bytes by an integer program (in %).
TORCH = (
    (0.3, 76_550_000, 35.50, 7.10),
    (0.2, 50_331_656, 50.30, 21.30),
    (0.1, 25_170_000, 64.50, 36.09),
    (0.05, 12_584_000, 71.60, 64.50),
)
# Extra cost in % of one step: certified bound and K-stage integer program, (seconds), and
# Moccasin's (CP-SAT). None: not known.
CHECKMATE = (
    ("unet_b32_train", 0.6, 4.34, 4.45, "4.451 (18 s)"),
    ("mobilenet_b512_train", 0.8, 0.34, 0.37, "1.33 (393 s)"),
    ("mobilenet_b512_train", 0.4, 2.33, 2.46, "none found"),
    ("resnet50_b256_train", 0.8, 0.27, 0.28, "none found (180 s)"),
    ("resnet50_b256_train", 0.4, 2.18, 2.27, ""),
    ("resnet50_b256_train", 0.3, 3.31, 3.96, ""),
    ("unet_b32_train", 0.5, None, None, ""),
    ("mobilenet_b512_train", 0.5, None, None, ""),
    ("resnet50_b256_train", 0.5, None, None, ""),
    ("vgg19_b256_train", 0.5, None, None, ""),
    ("vgg19_b256_train", 0.8, None, None, ""),
)
# VGG19's 143,667,240 parameters and their gradients, four bytes each.
VGG19_FIXED = 2 * 4 * 143_667_240


@dataclasses.dataclass
class Misses:
    found: list[str] = dataclasses.field(default_factory=list)

    def check(self, is_met: bool, what: str) -> str:
        if not is_met:
            self.found.append(what)
        return "" if is_met else "MISSED"


def print_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print(f"\n{title}\n")
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, tuple("-" * w for w in widths), *rows]:
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |")
    sys.stdout.flush()


def find(folder: pathlib.Path, name: str) -> Graph | None:
    path = folder / f"{name}.json"
    if path.exists():
        return load(path)
    print(f"\n{path} isn't there: left out")
    return None


def tradeoff_rows(graph: Graph, misses: Misses) -> Iterator[tuple[str, ...]]:
    for budget, saved, theirs, optimum in TORCH:
        found = tradeoff(graph, saved_bytes=saved)
        fewest = tradeoff(graph, cost=theirs / 100 * graph.total_cost)
        assert found is not None
        assert fewest is not None
        ours = 100 * found.recompute_fraction
        is_met = ours <= optimum + 0.1 and found.seconds < 1 and found.saved_bytes <= saved
        yield (
            f"{budget}",
            f"{saved / 1e6:.2f}",
            f"{theirs:.2f}",
            f"{optimum:.2f}",
            f"{ours:.2f}",
            f"{100 * found.lower_bound_fraction:.2f}",
            f"{found.seconds:.2f}",
            f"{fewest.saved_bytes / 1e6:.2f}",
            misses.check(is_met, f"torch_gpt12 at {budget}"),
        )


def peak_rows(folder: pathlib.Path, misses: Misses) -> Iterator[tuple[str, ...]]:
    for name, budget, bound, stages, moccasin in CHECKMATE:
        graph = find(folder, name)
        if graph is None:
            continue
        plan = solve(graph, int(budget * simulate(graph).peak))
        row = (name, f"{budget}", _number(bound), _number(stages), moccasin)
        if not plan.status.has_plan:
            least = plan.structural_minimum_bytes / simulate(graph).peak
            is_met = least > budget
            yield (
                *row,
                plan.status.name.lower(),
                f"minimum {least:.3f}",
                "",
                "",
                misses.check(is_met, f"{name} at {budget}"),
            )
            continue
        ours = 100 * plan.extra_cost_fraction
        # Theirs are rounded to two digits.
        is_met = (stages is None or ours <= stages + 0.005) and plan.seconds <= 10
        is_met &= simulate(graph, plan.recomputes).peak <= plan.budget_bytes
        gap = None if plan.gap is None else 100 * plan.gap
        if name[:3] in ("res", "mob") and budget >= 0.4:
            is_met &= gap is not None and gap <= 0.2
        lower = plan.lower_bound_fraction
        yield (
            *row,
            f"{ours:.3f}",
            "unknown" if lower is None else f"{100 * lower:.3f}",
            "unknown" if gap is None else f"{gap:.3f}",
            f"{plan.seconds:.1f}",
            misses.check(is_met, f"{name} at {budget}"),
        )


def _number(x: float | None) -> str:
    return "" if x is None else f"{x}"


def vgg19_batch(graph: Graph) -> int:
    """The largest batch of which the structural minimum fits 16 GB, with the parameters."""
    return int((16e9 - VGG19_FIXED) // (structural_minimum(graph).bytes / 256))


def uniform_chain(length: int) -> Graph:
    """Equal steps, each in place, and for each a backward op that reads what it started from."""
    states = [Value(int(i < length)) for i in range(length + 1)]
    ops = [Op(1.0, (i,), (i + 1,), in_place=((i, i + 1),)) for i in range(length - 1)]
    ops.append(Op(1.0, (length - 1,), (length,)))
    ops += [Op(1.0, (i,), ()) for i in reversed(range(length))]
    return Graph(tuple(states), tuple(ops))


def chain_rows(misses: Misses) -> Iterator[tuple[str, ...]]:
    for length in (10, 30, 100, 300, 1000):
        graph = uniform_chain(length)
        for slots in (2, 3, 5, 10, 20):
            plan = solve(graph, slots + 1)
            ours = length - 1 + int(plan.extra_cost)
            optimum = revolve.steps(length, slots)
            is_met = ours == optimum and plan.peak_bytes <= slots + 1
            yield (
                f"{length}",
                f"{slots}",
                f"{optimum}",
                f"{ours}",
                plan.solver,
                f"{plan.seconds:.2f}",
                misses.check(is_met, f"chain of {length}, {slots} slots"),
            )


def transformer(layers: int) -> Graph:
    """A transformer's training step of 33 ops a layer, weights as arguments, gradients as
    outputs. Sizes and costs are those of one shape, in units."""
    values: list[Value] = []
    ops: list[Op] = []

    def argument(size: int) -> int:
        values.append(Value(size))
        return len(values) - 1

    def op(cost: float, operands: list[int], size: int, is_output: bool = False) -> int:
        values.append(Value(size, is_output=is_output))
        ops.append(Op(cost, tuple(dict.fromkeys(operands)), (len(values) - 1,)))
        return len(values) - 1

    x = argument(4096)
    saved = []
    for _ in range(layers):
        w = [argument(1024) for _ in range(6)]
        n = op(1, [x], 4096)
        q, k, v = (op(8, [n, w[i]], 4096) for i in range(3))
        s = op(8, [q, k], 16384)
        p = op(4, [s], 16384)
        d = op(4, [p], 16384)
        a = op(8, [d, v], 4096)
        y = op(1, [x, op(8, [a, w[3]], 4096)], 4096)
        m = op(1, [y], 4096)
        u = op(32, [m, w[4]], 16384)
        g = op(4, [u], 16384)
        z = op(1, [y, op(32, [g, w[5]], 4096)], 4096)
        saved.append((x, w, n, q, k, v, p, d, a, y, m, u, g))
        x = z
    t = op(1, [x], 4096)
    for x, w, n, q, k, v, p, d, a, y, m, u, g in reversed(saved):
        tg = op(32, [t, w[5]], 16384)
        op(32, [t, g], 1024, True)
        tu = op(4, [tg, u], 16384)
        tm = op(32, [tu, w[4]], 4096)
        op(32, [tu, m], 1024, True)
        ty = op(2, [tm, y, t], 4096)
        ta = op(8, [ty, w[3]], 4096)
        op(8, [ty, a], 1024, True)
        ts = op(4, [op(4, [op(8, [ta, v], 16384), d], 16384), p], 16384)
        heads = [op(8, [ta, d], 4096), op(8, [ts, k], 4096), op(8, [ts, q], 4096)]
        for h in heads:
            op(8, [h, n], 1024, True)
        t = op(2, [op(24, [*heads, *w[:3]], 4096), x, ty], 4096)
    return Graph(tuple(values), tuple(ops))


def scale_rows(misses: Misses) -> Iterator[tuple[str, ...]]:
    for count, seconds in ((1_000, 1.0), (10_000, 10.0), (100_000, 60.0)):
        graph = transformer(count // 33 + 1)
        peak = simulate(graph).peak
        for budget in (0.7, 0.5, 0.3, 0.15):
            start = time.perf_counter()
            plan: Plan = solve(graph, int(budget * peak), time_limit=0.9 * seconds)
            took = time.perf_counter() - start
            bound = plan.lower_bound_fraction
            is_met = plan.status.has_plan and bound is not None and took <= seconds
            yield (
                f"{len(graph.ops)}",
                f"{budget}",
                f"{100 * plan.extra_cost_fraction:.2f}" if plan.status.has_plan else "none",
                "unknown" if bound is None else f"{100 * bound:.2f}",
                plan.solver,
                f"{took:.1f}",
                misses.check(is_met, f"{len(graph.ops)} ops at {budget}"),
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--graphs", type=pathlib.Path, default=pathlib.Path(__file__).parent / "graphs"
    )
    parser.add_argument("--only", choices=("tradeoff", "peak", "chains", "scale"))
    arguments = parser.parse_args()
    misses = Misses()

    def wanted(name: str) -> bool:
        return arguments.only in (None, name)

    if wanted("tradeoff"):
        graph = find(arguments.graphs, "torch_gpt12")
        if graph is not None:
            print_table(
                "Saved bytes against recompute (% of forward FLOPs), 12-layer GPT",
                ("budget", "MB", "torch", "optimum", "ours", "bound", "s", "MB at torch's", ""),
                list(tradeoff_rows(graph, misses)),
            )
        if importlib.util.find_spec("torch") is not None:
            script = pathlib.Path(__file__).with_name("torch_gpt.py")
            subprocess.run([sys.executable, str(script)], check=True)
    if wanted("peak"):
        rows = list(peak_rows(arguments.graphs, misses))
        if rows:
            print_table(
                "Peak memory: extra cost, % of one step (budget: of the peak without recomputing)",
                ("graph", "budget", "bound", "K-stage", "Moccasin")
                + ("ours", "our bound", "gap", "s", ""),
                rows,
            )
        graph = find(arguments.graphs, "vgg19_b256_train")
        if graph is not None:
            batch = vgg19_batch(graph)
            missed = misses.check(batch == 289, "VGG19's batch")
            print(f"\nVGG19, largest batch in 16 GB by the structural minimum: {batch} {missed}")
    if wanted("chains"):
        print_table(
            "Steps forward of uniform chains",
            ("steps", "slots", "revolve", "ours", "solver", "s", ""),
            list(chain_rows(misses)),
        )
    if wanted("scale"):
        print_table(
            "Transformer-like graphs: extra cost, % of one step",
            ("ops", "budget", "ours", "bound", "solver", "s", ""),
            list(scale_rows(misses)),
        )
    if misses.found:
        print("\nmissed: " + "; ".join(misses.found))
    return 1 if misses.found else 0


if __name__ == "__main__":
    sys.exit(main())
