"""The custom call of a device kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter
from .tensor import Tensor

_UNSPECIFIED = 0
"""The version of the calling convention that public Neuron libraries give their custom calls in HLO."""


def call_kernel(
    emitter: Emitter,
    target: str,
    config: str,
    operands: Sequence[Tensor],
    outputs: Sequence[TensorType],
    aliases: Mapping[int, int],
) -> list[Tensor]:
    """Call a kernel by its published name; ``aliases`` maps outputs to the operands that they are written into."""
    aliased = [_alias(output, operand, is_one=len(outputs) == 1) for output, operand in sorted(aliases.items())]
    call = stablehlo.CustomCallOp(
        [emitter.type(one.dtype, one.shape) for one in outputs],
        [operand.value for operand in operands],
        target,
        has_side_effect=False,
        backend_config=ir.StringAttr.get(config),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _UNSPECIFIED),
        output_operand_aliases=ir.ArrayAttr.get(aliased),
    )
    return [Tensor(value, one.dtype, one.shape) for value, one in zip(call.results, outputs, strict=True)]


def _alias(output: int, operand: int, is_one: bool) -> ir.Attribute:
    """An output that is the only one is no part of a tuple."""
    indices = [] if is_one else [output]
    return stablehlo.OutputOperandAlias.get(indices, operand, [])
