# SPDX-License-Identifier: Apache-2.0
"""The markers: `stablehlo.composite` ops whose decomposition is an identity.

The only place that spells their names and attributes; docs/markers.md is their specification.
Each region marker takes values and, last, the region's raw inputs, and returns the values. All four
markers of a region carry the same raw inputs, which is what pairs them.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from hlo_remat.diagnostics import Diagnostics
from hlo_remat.policies import Policy, from_attribute

PREFIX = "hlo_remat."
VERSION = 1


class Kind(enum.Enum):
    ENTER = "enter"
    EXIT = "exit"
    BWD_ENTER = "bwd_enter"
    BWD_EXIT = "bwd_exit"
    NAME = "name"
    RECOMPUTE = "recompute"


class Decision(enum.Enum):
    """What happens to one residual of a region."""

    INPUT = "input"  # one of the region's raw inputs: there anyway
    SAVE = "save"
    RECOMPUTE = "recompute"
    OFFLOAD = "offload"


class MarkerError(ValueError):
    """A marker that breaks the specification."""


@dataclasses.dataclass(frozen=True)
class Region:
    """What a region's markers say of it.

    `prevent_cse` is one bool, or one for each raw input as in newer JAX. `names` are the
    `checkpoint_name`s in the traced function, whether the module still has them or not.
    """

    label: str
    policy: Policy
    prevent_cse: bool | tuple[bool, ...] = True
    names: tuple[str, ...] = ()

    def to_attributes(self, context: ir.Context) -> dict[str, ir.Attribute]:
        fence: ir.Attribute
        if isinstance(self.prevent_cse, bool):
            fence = ir.BoolAttr.get(self.prevent_cse, context)
        else:
            fence = ir.DenseBoolArrayAttr.get(list(self.prevent_cse), context)
        names = [ir.StringAttr.get(n, context) for n in self.names]
        return {
            "region": ir.StringAttr.get(self.label, context),
            "policy": self.policy.to_attribute(context),
            "prevent_cse": fence,
            **({"names": ir.ArrayAttr.get(names, context)} if names else {}),
        }


def _decision(attribute: ir.Attribute) -> Decision:
    try:
        return Decision(ir.StringAttr(attribute).value)
    except ValueError:
        kinds = ", ".join(d.value for d in Decision)
        text = str(attribute).strip('"')
        raise MarkerError(f"'{text}' is not a decision; the decisions are {kinds}") from None


class Marker:
    """A marker op read from a module.

    `values` are the operands that pass through (results 0 to n), `inputs` the region's raw inputs,
    `residuals` what hlo-remat-partition adds to a bwd_enter: the values that the backward needs,
    each with its decision, returned after the cotangents. For a recompute, `residuals` are what it
    starts from, and `fenced` says of each whether the fence holds it.

    Raises MarkerError where the op breaks the specification.
    """

    def __init__(self, op: ir.Operation):
        self.op = op
        name = ir.StringAttr(op.attributes["name"]).value
        try:
            self.kind = Kind(name.removeprefix(PREFIX))
        except ValueError:
            raise MarkerError(f"unknown marker '{name}'") from None
        version = op.attributes["version"] if "version" in op.attributes else None
        if version is not None and ir.IntegerAttr(version).value > VERSION:
            raise MarkerError(
                f"marker '{name}' has version {ir.IntegerAttr(version).value}, this hlo_remat "
                f"knows versions up to {VERSION}"
            )
        attributes = op.attributes
        entries: Any = (
            ir.DictAttr(attributes["composite_attributes"])
            if "composite_attributes" in attributes
            else ()
        )
        self.attributes: dict[str, Any] = {entry.name: entry.attr for entry in entries}
        self.label: str = self._get("region", ir.StringAttr, "")
        self.name: str = self._get("name", ir.StringAttr, "")  # that a `name` marker gives
        operands = list(op.operands)
        num_inputs = self._get("num_inputs", ir.IntegerAttr, 0)
        decisions = self.attributes.get("decisions", ())
        if decisions and not isinstance(decisions, ir.ArrayAttr):
            raise MarkerError("attribute 'decisions' must be an array of strings")
        self.decisions = tuple(map(_decision, decisions))
        num_values = len(operands) - num_inputs - len(self.decisions)
        if self.kind is Kind.ENTER:
            num_values, num_inputs = 0, len(operands)
        if self.kind is Kind.RECOMPUTE and num_inputs:
            raise MarkerError(f"marker '{name}' takes no raw inputs")
        if num_values < 0 or num_inputs < 0:
            raise MarkerError(f"marker '{name}' has too few operands for its attributes")
        self.values = operands[:num_values]
        self.inputs = operands[num_values : num_values + num_inputs]
        self.residuals = operands[num_values + num_inputs :]
        self.fenced = self._fenced()
        if self.kind is not Kind.RECOMPUTE:
            self._check_results(name)

    def _check_results(self, name: str) -> None:
        expected = [v.type for v in self.passed]
        if [r.type for r in self.op.results] != expected:
            raise MarkerError(f"marker '{name}' must return what it takes: {expected}")

    def _get(self, name: str, kind: Any, default: Any) -> Any:
        if name not in self.attributes:
            return default
        try:
            return kind(self.attributes[name]).value
        except ValueError:
            raise MarkerError(f"attribute '{name}' has the wrong type") from None

    @property
    def passed(self) -> list[ir.Value]:
        """The operands that the results are identical to, in the results' order."""
        return self.inputs if self.kind is Kind.ENTER else self.values + self.residuals

    def _fenced(self) -> tuple[bool, ...]:
        mask = self.attributes.get("fenced")
        if mask is None:
            return (True,) * len(self.residuals)
        if not isinstance(mask, ir.DenseBoolArrayAttr) or len(mask) != len(self.residuals):
            raise MarkerError("attribute 'fenced' must be an array of a bool for each residual")
        return tuple(mask)

    def operand_of(self, result: int) -> int:
        """The operand that a result is identical to."""
        skipped = len(self.inputs) if self.kind is not Kind.ENTER else 0
        return result if result < len(self.values) else result + skipped

    def result_of(self, operand: int) -> int | None:
        """The result that is identical to an operand; None for a raw input, which only pairs."""
        if self.kind is Kind.ENTER or operand < len(self.values):
            return operand
        result = operand - len(self.inputs)
        return result if result >= len(self.values) else None

    def region(self) -> Region:
        """Raises PolicyError or MarkerError."""
        if "policy" not in self.attributes:
            raise MarkerError(f"marker '{PREFIX}{self.kind.value}' needs a 'policy' attribute")
        fence = self.attributes.get("prevent_cse")
        prevent_cse: bool | tuple[bool, ...] = True
        if isinstance(fence, ir.DenseBoolArrayAttr):
            prevent_cse = tuple(fence)
        elif isinstance(fence, ir.BoolAttr):
            prevent_cse = fence.value
        elif fence is not None:
            raise MarkerError("attribute 'prevent_cse' must be a bool or an array of bools")
        try:
            names = tuple(ir.StringAttr(n).value for n in self.attributes.get("names", ()))
        except (TypeError, ValueError):
            raise MarkerError("attribute 'names' must be an array of strings") from None
        return Region(self.label, from_attribute(self.attributes["policy"]), prevent_cse, names)


class MarkerReader:
    """Reads composite ops of a module as markers. One that breaks the specification is an error."""

    def __init__(self, diagnostics: Diagnostics):
        self._diagnostics = diagnostics
        self._returned: dict[str, list[int] | None] = {}  # by function: which arguments it returns

    def read(self, op: ir.Operation) -> Marker | None:
        if not is_marker(op):
            return None
        try:
            marker = Marker(op)
            if marker.kind is not Kind.RECOMPUTE:
                self._check_identity(marker)
            return marker
        except MarkerError as error:
            self._diagnostics.error(op.location, str(error))
            return None

    def _check_identity(self, marker: Marker) -> None:
        name = ir.FlatSymbolRefAttr(marker.op.attributes["decomposition"]).value
        if name not in self._returned:
            self._returned[name] = _returned_arguments(_function(marker.op, name))
        expected = [marker.operand_of(k) for k in range(len(marker.op.results))]
        if self._returned[name] != expected:
            raise MarkerError(
                f"marker '{PREFIX}{marker.kind.value}' must return what it takes, and its "
                f"decomposition '{name}' doesn't"
            )


def _function(op: ir.Operation, name: str) -> ir.Operation:
    while op.parent is not None:
        op = op.parent.operation
    found: ir.Operation = ir.SymbolTable(op)[name].operation
    return found


def _returned_arguments(function: ir.Operation) -> list[int] | None:
    """Which arguments a function returns that does nothing else."""
    blocks = list(function.regions[0].blocks)
    ops = list(blocks[0].operations) if len(blocks) == 1 else []
    if len(ops) != 1:
        return None
    arguments = {hash(v): k for k, v in enumerate(blocks[0].arguments)}
    return [arguments[hash(v)] for v in ops[0].operation.operands]


def is_marker(op: ir.Operation) -> bool:
    """Whether an op whose name is `stablehlo.composite` is one of ours."""
    return ir.StringAttr(op.attributes["name"]).value.startswith(PREFIX)


def identity_function(
    symbols: ir.SymbolTable, module: ir.Operation, operands: Sequence[ir.Type], results: list[int]
) -> str:
    """The name of a private function that returns the arguments `results`, made on first use."""
    signature = ir.FunctionType.get(list(operands), [operands[i] for i in results])
    digest = hashlib.sha256(f"{signature}{results}".encode()).hexdigest()[:8]
    name = f"{PREFIX}identity_{digest}"
    if name in symbols:
        return name
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        function = func.FuncOp(name, signature, visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([function.arguments[i] for i in results])
    symbols.insert(function)
    return name


def build_marker(
    kind: Kind,
    symbols: ir.SymbolTable,
    module: ir.Operation,
    values: Sequence[ir.Value],
    inputs: Sequence[ir.Value] = (),
    residuals: Iterable[tuple[ir.Value, Decision]] = (),
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Builds a marker at the current insertion point and location."""
    residuals = list(residuals)
    operands = [*values, *inputs, *(r for r, _ in residuals)]
    passed = list(range(len(values)))
    if kind is Kind.ENTER:
        passed = list(range(len(inputs)))
    passed += range(len(values) + len(inputs), len(operands))
    types = [o.type for o in operands]
    attributes = dict(attributes or {})
    if inputs and kind is not Kind.ENTER:
        i64 = ir.IntegerType.get_signless(64)
        attributes["num_inputs"] = ir.IntegerAttr.get(i64, len(inputs))
    if residuals:
        attributes["decisions"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(d.value) for _, d in residuals]
        )
    return stablehlo.CompositeOp(
        [types[i] for i in passed],
        operands,
        name=f"{PREFIX}{kind.value}",
        decomposition=identity_function(symbols, module, types, passed),
        composite_attributes=ir.DictAttr.get(attributes),
        version=VERSION,
    ).operation


def build_recompute(
    function: str,
    values: Sequence[ir.Value],
    kept: Sequence[ir.Value],
    recomputed: Sequence[ir.Type],
    decisions: Sequence[Decision],
    label: str,
    fenced: Sequence[bool],
) -> ir.Operation:
    """Builds a recompute marker whose decomposition is `function`."""
    operands = [*values, *kept]
    return stablehlo.CompositeOp(
        [*(v.type for v in operands), *recomputed],
        operands,
        name=f"{PREFIX}{Kind.RECOMPUTE.value}",
        decomposition=function,
        composite_attributes=ir.DictAttr.get(
            {
                "region": ir.StringAttr.get(label),
                "decisions": ir.ArrayAttr.get([ir.StringAttr.get(d.value) for d in decisions]),
                "fenced": ir.DenseBoolArrayAttr.get(list(fenced)),
            }
        ),
        version=VERSION,
    ).operation
