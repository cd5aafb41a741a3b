"""Loops: ``torch.while_loop`` to ``stablehlo.while``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from torch import fx
from torch._higher_order_ops.while_loop import while_loop_op

from .emitter import Emitter
from .tensor import Tensor

WHILE_LOOP = while_loop_op
"""Target of an FX node that carries tensors through a loop: (condition graph, body graph, carried, constants)."""


def loop_graphs(node: fx.Node) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Condition and body of a loop node."""
    module = node.graph.owning_module
    condition, body = (getattr(module, str(one.target)) for one in node.args[:2])  # pyright: ignore
    return condition, body


Region = Callable[[Emitter, list[Tensor]], Sequence[Tensor]]


def emit_while(
    emitter: Emitter, carried: Sequence[Tensor], constants: Sequence[Tensor], condition: Region, body: Region
) -> tuple[Tensor, ...]:
    """Run ``body`` on the carried tensors while ``condition`` holds; both also see the constants."""
    zero = [] if emitter.runtime_zero is None else [emitter.runtime_zero]
    operands = [one.value for one in (*carried, *constants)] + zero
    types = [value.type for value in operands]
    loop = stablehlo.WhileOp(types, operands)
    likes = (*carried, *constants)
    for region, fill, is_body in ((loop.cond, condition, False), (loop.body, body, True)):
        block = region.blocks.append(*types)
        with ir.InsertionPoint(block):
            values = list(block.arguments)
            inner = emitter.within(values[-1] if zero else None)
            typed = [Tensor(value, like.dtype, like.shape) for value, like in zip(values, likes, strict=False)]
            results = [result.value for result in fill(inner, typed)]
            stablehlo.return_(results + values[len(carried) :] if is_body else results)
    return tuple(Tensor(value, like.dtype, like.shape) for value, like in zip(loop.results, carried, strict=False))
