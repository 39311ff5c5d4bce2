# SPDX-License-Identifier: Apache-2.0
"""What a pass is: a frozen dataclass whose fields are its options.

A pass is declared in one place. Its class docstring is its documentation (first line the summary,
the rest the description with the IR before and after), `name` is its flag, and each field made by
`option` is an option with type, default and help. From that `--help` and docs/passes.md are
written.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostics


def option(default: Any, help: str) -> Any:
    """A pass option. Its field name in kebab-case is the option's name in a pipeline."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Pass:
    """Base class of the passes.

    Field types may be bool, int, str, `tuple[str, ...]` (a list), and `Literal` of strings.
    """

    name: ClassVar[str]

    def run(self, module: ir.Module, diagnostics: Diagnostics) -> None:
        """Rewrites `module` in place.

        Whatever is wrong with the module goes to `diagnostics`; an error there makes the pass,
        and the pipeline, fail. A failed pass may leave the module half rewritten, so callers
        work on a copy.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class NamedPipeline:
    """Passes, and native ones as text, under one name. Its options are those of its passes."""

    name: str
    summary: str
    elements: tuple[type[Pass] | str, ...]

    @property
    def pass_types(self) -> list[type[Pass]]:
        return [element for element in self.elements if not isinstance(element, str)]
