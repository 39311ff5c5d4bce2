# SPDX-License-Identifier: Apache-2.0
"""`python -m hlo_remat demo`."""

from __future__ import annotations

import argparse
import importlib.util
import sys


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hlo_remat",
        description="Rematerialisation for JAX training steps; for modules see hlo-remat-opt.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "demo", help="compile a transformer's training step with and without hlo_remat (a minute)"
    )
    parser.parse_args(argv)
    missing = [name for name in ("flax", "optax") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"the demo needs {' and '.join(missing)}: python3 -m pip install 'hlo-remat[demo]'",
            file=sys.stderr,
        )
        return 1
    from hlo_remat import demo  # here, for it imports flax

    demo.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
