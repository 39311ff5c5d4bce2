# SPDX-License-Identifier: Apache-2.0
"""`python -m hlo_remat.planner`."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from graphs import residual_chain
from test_formats import INDEX_LISTS, NODE_LINK

import hlo_remat.planner
from hlo_remat.planner import simulate, solve
from hlo_remat.planner.__main__ import main


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(NODE_LINK))
    return str(path)


def test_solve_prints_one_object(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", graph, "--budget", "12", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["budget_bytes"] == 12
    assert printed["peak_bytes"] <= 12
    assert printed["extra_cost"] == 1
    assert printed["extra_cost_fraction"] == pytest.approx(1 / 11)
    assert printed["lower_bound_fraction"] == pytest.approx(1 / 11)
    assert printed["structural_minimum_bytes"] == 9
    assert (printed["status"], printed["solver"]) == ("optimal", "exact")
    assert printed["seconds"] < 5


@pytest.mark.parametrize(("budget", "bytes_"), [("1.0", 13), ("0.93", 12), ("1KiB", 1024)])
def test_budgets(graph: str, budget: str, bytes_: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", graph, "--budget", budget, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget_bytes"] == bytes_


def test_exit_3_where_no_plan_can_exist(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", graph, "--budget", "8"]) == 3
    out = capsys.readouterr().out
    assert "no plan can fit" in out
    assert "9 bytes" in out


def test_exit_4_where_none_was_found(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"id": i, "cost_ram": 4, "cost_cpu": 1} for i in range(40)]
    pairs = [(i, i + 1) for i in range(39)] + [(i, 39 - i) for i in range(19)]
    links = [{"source": s, "target": t} for s, t in pairs]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"nodes": nodes, "links": links}))
    assert main(["solve", str(path), "--budget", "12", "--time-limit", "0.001"]) == 4
    assert "no plan was found" in capsys.readouterr().out


def test_tradeoff(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(INDEX_LISTS))
    assert main(["tradeoff", str(path), "--saved-bytes", "6", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["saved_bytes"] == 6
    assert printed["recompute_fraction"] == pytest.approx(1 / 7)
    assert printed["lower_bound_fraction"] <= 1 / 7
    assert printed["seconds"] < 1


def test_frontier(graph: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", graph, "--json", "--points", "5"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [p["peak_bytes"] for p in plans] == sorted({p["peak_bytes"] for p in plans})
    costs = [p["extra_cost"] for p in plans]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == 0
    picture = tmp_path / "curve.svg"
    assert main(["frontier", graph, "--plot", str(picture)]) == 0
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize("text", ["{", '{"nodes": [], "links": [{"source": 1, "target": 2}]}'])
def test_bad_graphs_end_in_one_line(
    tmp_path: pathlib.Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    path.write_text(text)
    assert main(["solve", str(path), "--budget", "0.5"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: .*graph\.json: .*\n", error)


@pytest.mark.parametrize("budget", ["-1", "0.0", "1.5", "many", "nanGiB"])
def test_bad_budgets_are_wrong_usage(graph: str, budget: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["solve", graph, f"--budget={budget}"])
    assert caught.value.code == 2


def test_every_process_makes_the_same_plan(run_python: Callable[..., str]) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from graphs import residual_chain\n"
        "from hlo_remat.planner import simulate, solve\n"
        "graph = residual_chain(12)\n"
        "print(solve(graph, int(simulate(graph).peak * 0.6)).recomputes)\n"
    )
    folder = str(pathlib.Path(__file__).parent)
    plans = {run_python(program, folder, PYTHONHASHSEED=seed) for seed in ("0", "7")}
    graph = residual_chain(12)
    assert plans == {f"{solve(graph, int(simulate(graph).peak * 0.6)).recomputes}\n"}


def test_the_planner_imports_neither_jax_nor_mlir() -> None:
    program = (
        "import sys, runpy\n"
        "sys.argv = ['planner', '--help']\n"
        "try: runpy.run_module('hlo_remat.planner', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "import hlo_remat.planner\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'mlir')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    for path in pathlib.Path(hlo_remat.planner.__file__).parent.rglob("*.py"):
        assert not re.search(r"^\s*(import|from) (jax|mlir)", path.read_text(), re.M), path
