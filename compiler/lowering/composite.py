"""Custom operators: one private function per signature, called through ``stablehlo.composite``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo
from torch import fx
from torch._ops import OpOverload

from .call_arguments import composite_attributes
from .emitter import Emitter
from .tensor import Tensor


def tensor_inputs(node: fx.Node) -> list[fx.Node]:
    """The distinct nodes among the arguments, in order of first use."""
    return list(node.all_input_nodes)


def define_private_function(
    body: ir.Block,
    name: str,
    arguments: Sequence[Tensor],
    emitter: Emitter,
    fill: Callable[[Emitter, list[Tensor]], Sequence[Tensor]],
) -> tuple[str, list[Tensor]]:
    """Append ``func.func private @name`` to the module and return its results as it would type them."""
    zero = [] if emitter.runtime_zero is None else [emitter.runtime_zero]
    input_types = [argument.value.type for argument in arguments] + [value.type for value in zero]
    with ir.InsertionPoint(body):
        function = func.FuncOp(name, (input_types, []), visibility="private")
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        parameters = list(block.arguments)
        inner = emitter.within(parameters.pop() if zero else None)
        typed = [Tensor(value, like.dtype, like.shape) for value, like in zip(parameters, arguments, strict=True)]
        results = list(fill(inner, typed))
        func.ReturnOp([result.value for result in results])
    output_types = [result.value.type for result in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(input_types, output_types))
    return name, results


def call_composite(
    emitter: Emitter, node: fx.Node, function: str, arguments: Sequence[Tensor], results: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Call a private function under the operator's own name and with its scalars, so that a kernel may replace it."""
    operator: OpOverload = node.target  # pyright: ignore[reportAssignmentType]
    zero = [] if emitter.runtime_zero is None else [emitter.runtime_zero]
    call = stablehlo.CompositeOp(
        [result.value.type for result in results],
        [argument.value for argument in arguments] + zero,
        f"{operator.namespace}.{operator._opname}",
        function,
        composite_attributes=composite_attributes(node),
    )
    return tuple(Tensor(value, like.dtype, like.shape) for value, like in zip(call.results, results, strict=True))
