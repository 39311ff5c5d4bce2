# SPDX-License-Identifier: Apache-2.0
"""Makes the harness importable."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
