# SPDX-License-Identifier: Apache-2.0
"""Fences: ways to keep XLA from merging a recompute with the forward or running it early.

Each builds, at the insertion point, a computation of `build(operands)` whose operands XLA takes
for new values that are ready no sooner than the cotangents. docs/architecture.md says what each
gives and costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxlib import version as jaxlib_version
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from hlo_remat.ir.index import nested_ops
from hlo_remat.strategy import compiler_options, parse_version

Values = list[ir.Value]
Build = Callable[[Values], Values]


def barrier(operands: Values, build: Build) -> Values:
    """The operands pass an `optimization_barrier`."""
    return build(list(stablehlo.optimization_barrier(operands)))


def fence_options(module: ir.Module, target: str) -> dict[str, str]:
    """What the compiler must be told so that the barriers in a module hold."""
    has_any, in_loop = _barriers(module)
    version = parse_version(jaxlib_version.__version__)
    return compiler_options(target, version, in_loop) if has_any else {}


def _barriers(module: ir.Module) -> tuple[bool, bool]:
    """Whether there is an `optimization_barrier`, and whether one may be in the body of a loop:
    nested in an op, or in a function that something may call."""
    has_any = False
    for view in module.body.operations:
        function = view.operation
        is_private = "sym_visibility" in function.attributes and (
            ir.StringAttr(function.attributes["sym_visibility"]).value == "private"
        )
        for op in nested_ops(function):
            if op.name == "stablehlo.optimization_barrier":
                if is_private or op.parent != function:
                    return True, True
                has_any = True
    return has_any, False


def call(operands: Values, build: Build, module: ir.Module, symbols: ir.SymbolTable) -> Values:
    """A `func.call` that XLA doesn't inline."""
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(
            "hlo_remat.fenced", ([v.type for v in operands], []), visibility="private"
        )
    symbols.insert(function)
    with ir.InsertionPoint(function.add_entry_block()):
        results = build(list(function.arguments))
        func.ReturnOp(results)
    types = [v.type for v in results]
    signature = ir.FunctionType.get([v.type for v in operands], types)
    function.operation.attributes["function_type"] = ir.TypeAttr.get(signature)
    op = func.CallOp(
        types, ir.StringAttr(function.operation.attributes["sym_name"]).value, operands
    )
    op.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
        {"inlineable": ir.StringAttr.get("false")}
    )
    return list(op.results)


def case(operands: Values, build: Build, opaque: ir.Value) -> Values:
    """A branch that is always taken, by a predicate that XLA can't fold."""
    always = stablehlo.compare(
        opaque,
        _constant(opaque.type, 0),
        ir.Attribute.parse("#stablehlo<comparison_direction GE>"),
    )
    return _if(always, operands, build)


def _if(predicate: ir.Value, operands: Values, build: Build) -> Values:
    # The branch is built in a scratch block first: its result types are known only then.
    op = stablehlo.IfOp([], predicate)
    block = op.operation.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        results = build(operands)
        stablehlo.return_(results)
    types = [v.type for v in results]
    typed = stablehlo.IfOp(types, predicate)
    block.append_to(typed.operation.regions[0])
    with ir.InsertionPoint(typed.operation.regions[1].blocks.append()):
        stablehlo.return_([zeros(t) for t in types])
    op.operation.erase()
    return list(typed.results)


def while_(operands: Values, build: Build, types: Sequence[ir.Type], opaque: ir.Value) -> Values:
    """A loop that runs once, by a trip count that XLA can't fold.

    Its body passes the operands and the counter through a barrier, or XLA would hoist it.
    `types` are those of the results of `build`.
    """
    i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    start = stablehlo.minimum(opaque, _constant(i32, 0))
    carried = [start, *(zeros(t) for t in types)]
    op = stablehlo.WhileOp([v.type for v in carried], carried).operation
    locations = [op.location] * len(carried)
    condition = op.regions[0].blocks.append(*[v.type for v in carried], arg_locs=locations)
    with ir.InsertionPoint(condition):
        less = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        trip = stablehlo.compare(condition.arguments[0], _constant(i32, 1), less)
        stablehlo.return_([trip])
    body = op.regions[1].blocks.append(*[v.type for v in carried], arg_locs=locations)
    with ir.InsertionPoint(body):
        counter, *inside = stablehlo.optimization_barrier([body.arguments[0], *operands])
        results = build(inside)
        stablehlo.return_([stablehlo.add(counter, _constant(i32, 1)), *results])
    return list(op.results)[1:]


def opaque_zero_or_one(cotangents: Sequence[ir.Value]) -> ir.Value | None:
    """A scalar i32 that is 0 or 1 for all data, NaN included, and that XLA can't fold.

    It is the last bit of an element of a cotangent, so it is ready no sooner than that. None
    where no cotangent has an element with bits to take.
    """
    for value in cotangents:
        bits = _bits(value)
        if bits is not None:
            return bits
    return None


def _bits(value: ir.Value) -> ir.Value | None:
    tensor = ir.RankedTensorType(value.type)
    if not tensor.has_static_shape or 0 in tensor.shape:
        return None
    element = tensor.element_type
    i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    rank = tensor.rank
    one = stablehlo.slice(value, [0] * rank, [1] * rank, [1] * rank) if rank else value
    scalar = stablehlo.reshape(ir.RankedTensorType.get([], element), one)
    if isinstance(element, ir.ComplexType):
        scalar = stablehlo.real(scalar)
        element = element.element_type
    if isinstance(element, ir.FloatType):
        if element.width not in (8, 16, 32, 64):
            return None
        integer = ir.IntegerType.get_signless(element.width)
        scalar = stablehlo.bitcast_convert(ir.RankedTensorType.get([], integer), scalar)
    elif not isinstance(element, ir.IntegerType):
        return None
    return stablehlo.and_(stablehlo.convert(i32, scalar), _constant(i32, 1))


def _constant(type_: ir.Type, value: int) -> ir.Value:
    element = ir.RankedTensorType(type_).element_type
    return stablehlo.constant(
        ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(element, value))
    )


def zeros(type_: ir.Type) -> ir.Value:
    """A tensor of zeros of a static shape: integer, float or complex."""
    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    if isinstance(element, ir.ComplexType):
        part = zeros(ir.RankedTensorType.get(tensor.shape, element.element_type))
        return stablehlo.complex(part, part)
    scalar = ir.RankedTensorType.get([], element)
    text = "0.0" if isinstance(element, ir.FloatType) else "0"
    if str(element) == "i1":
        text = "false"
    zero = stablehlo.constant(ir.Attribute.parse(f"dense<{text}> : {scalar}"))
    if not tensor.rank:
        return zero
    return stablehlo.broadcast_in_dim(tensor, zero, [])
