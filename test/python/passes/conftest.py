# SPDX-License-Identifier: Apache-2.0
"""Makes the programs of the frontend's tests importable."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "frontend"))
