# SPDX-License-Identifier: Apache-2.0
"""`saved_residuals`: what the backward of a function keeps, read from the partitioned module."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from hlo_remat import module_io
from hlo_remat.diagnostics import Diagnostics
from hlo_remat.frontend.checkpoint import checkpoint
from hlo_remat.frontend.policies import checkpoint_policies
from hlo_remat.frontend.readback import aval
from hlo_remat.ir.aliases import Aliases
from hlo_remat.ir.index import Index
from hlo_remat.ir.location import file_line_col, op_path
from hlo_remat.ir.markers import Decision, Kind
from hlo_remat.ir.needs import SLOTTED, Needs
from hlo_remat.ir.origin import Origins
from hlo_remat.ir.regions import read_markers
from hlo_remat.passes.inline import Inline
from hlo_remat.passes.partition import Partition
from hlo_remat.passes.pipeline import pipeline_of
from hlo_remat.passes.recompute import Recompute

_WHOLE = "hlo_remat.saved_residuals"


@dataclasses.dataclass(frozen=True)
class Residual:
    """A value that the backward keeps, and where it comes from."""

    shape: tuple[int, ...]
    dtype: np.dtype
    source: str

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"{self.dtype.name}[{shape}] {self.nbytes} bytes {self.source}"


class SavedResiduals(list[Residual]):
    """The residuals of a function, in the order in which they are made."""

    @property
    def nbytes(self) -> int:
        """The sum of their sizes in bytes."""
        return sum(r.nbytes for r in self)

    def __str__(self) -> str:
        return "\n".join([*map(str, self), f"total: {len(self)} values, {self.nbytes} bytes"])


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> SavedResiduals:
    """What the backward of `f` at these arguments keeps once its regions are partitioned.

    It lowers the gradient of `f` and runs the passes up to hlo-remat-recompute, so it reports what
    the compiled program really keeps of each region; what lies outside every region counts as
    saved. Arguments that the backward reads are listed too, though they take no further memory.

    Args:
      f: a function of pytrees of arrays.
      *args, **kwargs: its arguments, or `jax.ShapeDtypeStruct`s in their place.

    Returns:
      The residuals with shape, dtype, size in bytes and source: an argument, a constant, a name,
      or an op with its source line.

    Raises:
      DiagnosticError, UnknownNameError: as `hlo_remat.apply` and `hlo_remat.checkpoint`.
    """
    lowered, arg_names = _lower_backward(f, args, kwargs)
    module = module_io.parse(module_io.bytecode(lowered.compiler_ir("stablehlo")))
    pipeline_of(Inline(), Partition(), Recompute()).run(module, diagnostics=Diagnostics())
    main = next(
        view.operation
        for view in module.body.operations
        if ir.StringAttr(view.operation.attributes["sym_name"]).value == "main"
    )
    return _Reader(main, arg_names).read()


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints `saved_residuals(f, *args, **kwargs)`, a line each, and their total in bytes."""
    print(saved_residuals(f, *args, **kwargs))


def _lower_backward(f: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, list[str]]:
    leaves, tree = jax.tree.flatten((args, kwargs))
    # `f` as one region that saves everything: then its residuals are those of the regions inside.
    whole = checkpoint(_named_whole(f), policy=checkpoint_policies.everything_saveable)
    is_inexact = [jnp.issubdtype(jnp.result_type(x), jnp.inexact) for x in leaves]

    def pulled_back(leaves: Any, cotangents: Any) -> Any:
        def of_inexact(inexact: Any) -> Any:
            rest = iter(inexact)
            full = [next(rest) if i else x for x, i in zip(leaves, is_inexact, strict=True)]
            inner_args, inner_kwargs = jax.tree.unflatten(tree, full)
            outs = jax.tree.leaves(whole(*inner_args, **inner_kwargs))
            return [o for o in outs if jnp.issubdtype(o.dtype, jnp.inexact)]

        inexact = [x for x, i in zip(leaves, is_inexact, strict=True) if i]
        return jax.vjp(of_inexact, inexact)[1](cotangents)

    shapes = jax.tree.leaves(jax.eval_shape(f, *args, **kwargs))
    cotangents = [s for s in shapes if jnp.issubdtype(s.dtype, jnp.inexact)]
    lowered = jax.jit(pulled_back, keep_unused=True).lower(leaves, cotangents)
    return lowered, _argument_names(f, args, kwargs)


def _named_whole(f: Callable[..., Any]) -> Callable[..., Any]:
    def whole(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    whole.__name__ = _WHOLE
    return whole


def _argument_names(f: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
        parameters = list(bound.signature.parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names += [f"args[{i}]" for i in range(len(names), len(args))]
    paths, _ = jax.tree.flatten_with_path((tuple(args), kwargs))
    texts = []
    for (group, first, *rest), _ in paths:
        name = names[first.idx] if group.idx == 0 else first.key
        texts.append(name + jax.tree_util.keystr(tuple(rest)))
    return texts


class _Reader:
    """Reads the residuals of the whole function from its partitioned backward."""

    def __init__(self, main: ir.Operation, arg_names: list[str]):
        self.index = Index(main)
        self.markers = read_markers(self.index, Diagnostics())
        self.aliases = Aliases(self.index, self.markers)
        self.origins = Origins(self.index, self.aliases.made)
        self.arg_names = arg_names
        arguments = main.regions[0].blocks[0].arguments
        self.arguments = {self.index.id_of(v): k for k, v in enumerate(arguments)}
        self.names: dict[int, list[str]] = {}
        for op, marker in self.markers.items():
            if marker.kind is Kind.NAME:
                made = self.aliases.made(self.index.results[op][0])
                self.names.setdefault(made, []).append(marker.name)

    def read(self) -> SavedResiduals:
        needs = Needs(self.index, step=self.aliases.step)
        needs.add_op(self.index.blocks[0][-1])
        needs.finish()
        kept: dict[int, None] = {}
        for op, marker in sorted(self.markers.items()):
            if marker.kind is Kind.BWD_ENTER and marker.label == _WHOLE:
                first = len(marker.values) + len(marker.inputs)
                for v, decision in zip(
                    self.index.operands[op][first:], marker.decisions, strict=True
                ):
                    made = self.aliases.made(v)
                    if decision is not Decision.RECOMPUTE and needs.has(made):
                        kept[made] = None
        return SavedResiduals(self.residual(v) for v in sorted(kept))

    def residual(self, value: int) -> Residual:
        shaped = aval(self.index.values[value].type)
        return Residual(shaped.shape, np.dtype(shaped.dtype), self.source(value))

    def inside(self, value: int) -> int:
        """What a loop or a branch hands out as `value`."""
        while (op := self.index.definer[value]) >= 0 and self.index.names[op] in SLOTTED:
            result = self.index.results[op].index(value)
            handouts = self.origins.handed_out(op, result)
            if not handouts:
                break
            value = self.aliases.made(handouts[0].value)
        return value

    def source(self, value: int) -> str:
        if value in self.arguments:
            return f"from the argument {self.arg_names[self.arguments[value]]}"
        value = self.inside(value)
        op = self.index.definer[value]
        if op < 0:
            return "carried by a loop"
        name = self.index.names[op]
        if name == "stablehlo.constant":
            return "from a constant"
        location = self.index.ops[op].location
        place = file_line_col(location)
        where = " from {}:{}".format(*place[:2]) if place else ""
        path = op_path(location)
        what = path.rsplit("/", 1)[-1] if path else name.removeprefix("stablehlo.")
        names = "".join(f"named '{n}', " for n in self.names.get(value, ()))
        return f"{names}output of {what}{where}"
