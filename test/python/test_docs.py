# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Literal

from hlo_remat import passes
from hlo_remat.passes.base import NamedPipeline, Pass, option
from hlo_remat.tools import docs


@dataclasses.dataclass(frozen=True)
class Example(Pass):
    """Does nothing, as an example.

    before   ==>   after
    """

    name = "example"
    kind: Literal["small", "large"] = option("small", "how much of it")
    names: tuple[str, ...] = option((), "which ones")


SECTION = """\
## `example`

Does nothing, as an example.

before   ==>   after

| option | value | default | |
| --- | --- | --- | --- |
| `kind` | small\\|large | small | how much of it |
| `names` | list | none | which ones |

## `examples`

Runs it. Its options are those of its passes.
"""


def test_passes_are_documented(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(passes, "PASSES", (Example,))
    monkeypatch.setattr(passes, "PIPELINES", (NamedPipeline("examples", "Runs it.", (Example,)),))
    path = tmp_path / "passes.md"
    assert docs.main([str(path), "--check"]) == 1
    assert docs.main([str(path)]) == 0
    assert docs.main([str(path), "--check"]) == 0
    assert path.read_text().endswith(SECTION)
    path.write_text("old")
    assert docs.main([str(path), "--check"]) == 1
    assert "is stale: run `python -m hlo_remat.tools.docs`" in capsys.readouterr().err


def test_the_pass_documentation_is_fresh():
    assert docs.main(["--check"]) == 0
