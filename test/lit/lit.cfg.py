# SPDX-License-Identifier: Apache-2.0
"""lit configuration: `lit -v test/lit` from the repository's root."""

import os
import sys

import lit.formats

config = globals()["config"]  # lit puts it there
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

config.name = "hlo_remat"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py"]
config.excludes = ["lit.cfg.py"]
config.test_exec_root = os.path.join(root, "lit.out")
config.environment |= {"PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}

# filecheck, from PyPI, reads this flag from its command line only.
beside_python = os.path.join(os.path.dirname(sys.executable), "filecheck")
filecheck = os.environ.get("FILECHECK", f"{beside_python} --enable-var-scope")
config.substitutions += [
    (r"\bhlo-remat-opt\b", f"{sys.executable} -m hlo_remat.tools.opt"),
    (r"\bFileCheck\b", filecheck),
    ("%PYTHON", sys.executable),
]
