# SPDX-License-Identifier: Apache-2.0
"""`python -m hlo_remat.planner`: plans for graphs in files.

Exit codes: 0 with a plan, 1 for a graph that can't be read, 2 for wrong usage, 3 where no plan can
exist, 4 where none was found in time.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from typing import Any

from hlo_remat.errors import HloRematError
from hlo_remat.planner.formats import load
from hlo_remat.planner.frontier import frontier
from hlo_remat.planner.plan import Plan, Status, format_bytes, parse_bytes
from hlo_remat.planner.simulate import simulate
from hlo_remat.planner.solve import DEFAULT_SECONDS, solve
from hlo_remat.planner.tradeoff import tradeoff

IMPOSSIBLE, NOT_FOUND = 3, 4


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except HloRematError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hlo_remat.planner", description=__doc__, allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("solve", help="the cheapest plan for a budget of peak memory")
    command.set_defaults(command=_solve)
    command.add_argument("graph", help="a node-link graph or index lists, JSON")
    command.add_argument(
        "--budget",
        type=budget,
        required=True,
        help="bytes (8589934592, 8GiB), or up to 1.0: of the peak without recomputing",
    )
    command.add_argument("--time-limit", type=_seconds, default=DEFAULT_SECONDS, metavar="SECONDS")
    command.add_argument("--json", action="store_true", help="one object instead of a page")
    command = commands.add_parser("tradeoff", help="the least recompute for some saved bytes")
    command.set_defaults(command=_tradeoff)
    command.add_argument("graph", help="index lists, JSON")
    command.add_argument("--saved-bytes", type=_bytes, required=True, help="bytes, or 8MiB")
    command.add_argument("--json", action="store_true", help="one object instead of a page")
    command = commands.add_parser("frontier", help="plans from the least memory to no recompute")
    command.set_defaults(command=_frontier)
    command.add_argument("graph", help="a node-link graph or index lists, JSON")
    command.add_argument("--points", type=_count, default=12, metavar="N")
    command.add_argument("--time-limit", type=_seconds, default=60.0, metavar="SECONDS")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    form.add_argument("--plot", metavar="FILE", help="write the curve as an SVG picture")
    return parser


def _solve(arguments: argparse.Namespace) -> int:
    graph = load(arguments.graph)
    size = arguments.budget
    if isinstance(size, float):
        size = math.floor(size * simulate(graph).peak)
    plan = solve(graph, size, time_limit=arguments.time_limit)
    _print(plan.to_dict() if arguments.json else plan)
    if plan.status.has_plan:
        return 0
    return IMPOSSIBLE if plan.status is Status.IMPOSSIBLE else NOT_FOUND


def _tradeoff(arguments: argparse.Namespace) -> int:
    graph = load(arguments.graph)
    found = tradeoff(graph, saved_bytes=arguments.saved_bytes)
    if found is None:
        print("error: what may not be recomputed needs more than that", file=sys.stderr)
        return IMPOSSIBLE
    if arguments.json:
        _print(found.to_dict())
    else:
        print(f"saved      {format_bytes(found.saved_bytes)}, {len(found.saved)} values")
        print(f"recompute  {found.recompute_fraction:.2%} of one run, {len(found.recomputed)} ops")
        print(f"bound      {found.lower_bound_fraction:.2%}")
        print(f"seconds    {found.seconds:.2f}")
    return 0


def _frontier(arguments: argparse.Namespace) -> int:
    plans = frontier(
        load(arguments.graph), points=arguments.points, time_limit=arguments.time_limit
    )
    if arguments.json:
        print(json.dumps([plan.to_dict() for plan in plans]))
        return 0
    print(f"{'peak bytes':>16}  {'recompute':>9}  {'bound':>7}  solver")
    for plan in plans:
        bound = plan.lower_bound_fraction
        print(
            f"{plan.peak_bytes:>16}  {plan.extra_cost_fraction:>9.2%}  "
            f"{'unknown' if bound is None else f'{bound:.2%}':>7}  {plan.solver}"
        )
    if arguments.plot:
        try:
            pathlib.Path(arguments.plot).write_text(svg(plans), encoding="utf-8")
        except OSError as error:
            print(f"error: {arguments.plot}: {error.strerror}", file=sys.stderr)
            return 1
    return 0


def svg(plans: list[Plan]) -> str:
    """Recompute over peak memory, as a picture of 640 by 400."""
    most_bytes = max((p.peak_bytes for p in plans), default=0) or 1
    most = max((p.extra_cost_fraction for p in plans), default=0.0) or 1.0
    points = [
        (60 + 540 * p.peak_bytes / most_bytes, 350 - 310 * p.extra_cost_fraction / most)
        for p in plans
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400" font-family="sans-serif" '
        'font-size="12"><path d="M60 40V350H600" fill="none" stroke="black"/>'
        f'<polyline points="{line}" fill="none" stroke="steelblue"/><g fill="steelblue">{dots}</g>'
        f'<text x="4" y="44">{most:.1%}</text><text x="30" y="354">0</text>'
        f'<text x="600" y="370" text-anchor="end">{format_bytes(most_bytes)}</text>'
        '<text x="330" y="390" text-anchor="middle">peak memory</text>'
        '<text x="60" y="24">recompute, of one run</text></svg>\n'
    )


def _print(what: Any) -> None:
    print(json.dumps(what) if isinstance(what, dict) else what)


def budget(text: str) -> int | float:
    """Bytes as an int, a fraction of at most 1 as a float: `8GiB`, `1000`, `0.6`, `1.0`."""
    try:
        if "." in text and text[-1].isdigit():
            fraction = float(text)
            if 0 < fraction <= 1:
                return fraction
        return _bytes(text)
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither bytes, such as 8GiB, nor a fraction of the peak, such as 0.6"
        ) from None


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number of points")
    return count


def _seconds(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds) or seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a time")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
