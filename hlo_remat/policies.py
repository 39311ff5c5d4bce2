# SPDX-License-Identifier: Apache-2.0
"""Policies: which values of a region may be saved, as plain data.

A policy is a frozen dataclass that can be written into a module as an attribute and read back.
`decide` looks at one value: the op that makes it and the names that `checkpoint_name` gave it.
The set is that of `jax.checkpoint_policies`; hlo_remat/frontend/policies.py turns JAX's own
objects into these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set
from typing import Any, ClassVar

from jaxlib.mlir import ir


class PolicyError(ValueError):
    """A policy attribute or option that can't be read."""


@dataclasses.dataclass(frozen=True)
class Offload:
    """Keep the value in another memory: `src` and `dst` are memory kinds such as "pinned_host"."""

    src: str
    dst: str


Decision = bool | Offload  # True: may be saved, False: must be recomputed

_DOTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})


def _has_no_batch_dims(op: ir.Operation) -> bool:
    if op.name == "stablehlo.dot":
        return True
    if op.name != "stablehlo.dot_general":
        return False
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return not numbers.lhs_batching_dimensions


@dataclasses.dataclass(frozen=True)
class Policy:
    """Base class. `kind` is the policy's name in attributes, options and messages."""

    kind: ClassVar[str]

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        """Whether a value may be saved. `op` makes it (None for a block argument)."""
        raise NotImplementedError

    @property
    def names(self) -> frozenset[str]:
        """The names that the policy speaks of; each must exist in the region."""
        return frozenset(
            name
            for field in dataclasses.fields(self)
            if field.name.startswith("names")
            for name in getattr(self, field.name)
        )

    def to_attribute(self, context: ir.Context) -> ir.Attribute:
        """`{kind = "save_only_these_names", names = ["h"]}`"""
        fields = {"kind": _to_attribute(self.kind, context)}
        for field in dataclasses.fields(self):
            fields[field.name] = _to_attribute(getattr(self, field.name), context)
        return ir.DictAttr.get(fields, context)

    def __str__(self) -> str:
        fields = (getattr(self, f.name) for f in dataclasses.fields(self))
        parts = (", ".join(map(repr, f)) if isinstance(f, tuple) else str(f) for f in fields)
        inside = ", ".join(parts)
        return f"{self.kind}({inside})" if inside else self.kind


@dataclasses.dataclass(frozen=True)
class EverythingSaveable(Policy):
    kind = "everything_saveable"

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return True


@dataclasses.dataclass(frozen=True)
class NothingSaveable(Policy):
    kind = "nothing_saveable"

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return False


@dataclasses.dataclass(frozen=True)
class DotsSaveable(Policy):
    kind = "dots_saveable"

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return op is not None and op.name in _DOTS


@dataclasses.dataclass(frozen=True)
class DotsWithNoBatchDimsSaveable(Policy):
    kind = "dots_with_no_batch_dims_saveable"

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return op is not None and _has_no_batch_dims(op)


@dataclasses.dataclass(frozen=True)
class SaveAnythingExceptTheseNames(Policy):
    kind = "save_anything_except_these_names"
    names_not_to_save: tuple[str, ...]

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return names.isdisjoint(self.names_not_to_save)


@dataclasses.dataclass(frozen=True)
class SaveAnyNamesButThese(Policy):
    kind = "save_any_names_but_these"
    names_not_to_save: tuple[str, ...]

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return not names <= set(self.names_not_to_save)


@dataclasses.dataclass(frozen=True)
class SaveOnlyTheseNames(Policy):
    kind = "save_only_these_names"
    names_which_can_be_saved: tuple[str, ...]

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return not names.isdisjoint(self.names_which_can_be_saved)


@dataclasses.dataclass(frozen=True)
class OffloadDotWithNoBatchDims(Policy):
    kind = "offload_dot_with_no_batch_dims"
    offload_src: str
    offload_dst: str

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        if op is None or not _has_no_batch_dims(op):
            return False
        return Offload(self.offload_src, self.offload_dst)


@dataclasses.dataclass(frozen=True)
class SaveAndOffloadOnlyTheseNames(Policy):
    kind = "save_and_offload_only_these_names"
    names_which_can_be_saved: tuple[str, ...]
    names_which_can_be_offloaded: tuple[str, ...]
    offload_src: str
    offload_dst: str

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        if not names.isdisjoint(self.names_which_can_be_saved):
            return True
        if not names.isdisjoint(self.names_which_can_be_offloaded):
            return Offload(self.offload_src, self.offload_dst)
        return False


@dataclasses.dataclass(frozen=True)
class SaveFromBothPolicies(Policy):
    kind = "save_from_both_policies"
    policy_1: Policy
    policy_2: Policy

    @property
    def names(self) -> frozenset[str]:
        return self.policy_1.names | self.policy_2.names

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        first = self.policy_1.decide(op, names)
        return first if first is True else self.policy_2.decide(op, names) or first


CustomDecide = Callable[[ir.Operation | None, Set[str]], Decision]

# Policies given as Python callables, by key. A module holds only the key, so such a module is good
# for this process only. hlo_remat/frontend/policies.py fills the table.
CUSTOM: dict[str, CustomDecide] = {}


@dataclasses.dataclass(frozen=True)
class Custom(Policy):
    """A callable of the user's; `key` finds it in `CUSTOM`."""

    kind = "custom"
    key: str

    def decide(self, op: ir.Operation | None, names: Set[str]) -> Decision:
        return CUSTOM[self.key](op, names)


KINDS: dict[str, type[Policy]] = {
    cls.kind: cls
    for cls in (
        EverythingSaveable,
        NothingSaveable,
        DotsSaveable,
        DotsWithNoBatchDimsSaveable,
        SaveAnythingExceptTheseNames,
        SaveAnyNamesButThese,
        SaveOnlyTheseNames,
        OffloadDotWithNoBatchDims,
        SaveAndOffloadOnlyTheseNames,
        SaveFromBothPolicies,
        Custom,
    )
}


def _to_attribute(value: Any, context: ir.Context) -> ir.Attribute:
    if isinstance(value, Policy):
        return value.to_attribute(context)
    if isinstance(value, tuple):
        return ir.ArrayAttr.get([_to_attribute(v, context) for v in value], context)
    return ir.StringAttr.get(value, context)


def _from_attribute(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.DictAttr):
        return from_attribute(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(_from_attribute(a) for a in attribute)
    if isinstance(attribute, ir.StringAttr):
        return attribute.value
    raise PolicyError(f"unexpected attribute {attribute} in a policy")


def from_attribute(attribute: ir.Attribute) -> Policy:
    """Reads what `Policy.to_attribute` wrote. Raises PolicyError on anything else."""
    if not isinstance(attribute, ir.DictAttr):
        raise PolicyError(f"a policy is a dictionary with a 'kind', not {attribute}")
    named: Any = attribute  # its stub has no __iter__
    fields = {n.name: _from_attribute(n.attr) for n in named}
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise PolicyError(f"unknown policy kind '{kind}'; the kinds are {', '.join(KINDS)}")
    cls = KINDS[kind]
    types = {f.name: f.type for f in dataclasses.fields(cls)}
    for name, value in fields.items():
        expected = {"str": str, "Policy": Policy}.get(str(types.get(name)), tuple)
        if not isinstance(value, expected):
            raise PolicyError(f"field '{name}' of policy '{kind}' has the wrong type")
    if fields.keys() != types.keys():
        raise PolicyError(f"policy '{kind}' has the fields {list(types)}, not {list(fields)}")
    if kind == Custom.kind and fields["key"] not in CUSTOM:
        raise PolicyError(
            f"policy '{fields['key']}' is a Python function of the process that lowered this "
            "module; it can't be called here: run the passes there, or use a named policy"
        )
    return cls(**fields)


def from_name(kind: str, names: tuple[str, ...] = ()) -> Policy:
    """The policy of a kind that takes nothing, or names only. Raises PolicyError."""
    if kind not in KINDS:
        raise PolicyError(f"unknown policy '{kind}'; the policies are {', '.join(KINDS)}")
    fields = [f.name for f in dataclasses.fields(KINDS[kind])]
    if fields and not (len(fields) == 1 and fields[0].startswith("names")):
        raise PolicyError(f"policy '{kind}' takes {fields}, which an option can't give")
    if bool(names) != bool(fields):
        what = "needs names" if fields else "takes no names"
        raise PolicyError(f"policy '{kind}' {what}")
    return KINDS[kind](*([names] if fields else []))
