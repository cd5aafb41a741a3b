"""Root-mean-square normalisation by the compiler's own kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .kernel import Bar, CompilerCall, DeviceKernel, OperatorCall

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def _accepts(call: OperatorCall) -> bool:
    x, weight, eps = call.arguments["x"], call.arguments["weight"], call.arguments["eps"]
    is_float = x.dtype in _FLOATS and weight.dtype in _FLOATS
    # Rounded to float32 like the operand, so that zero stays zero and nothing else becomes it.
    is_held = float(torch.tensor(eps, dtype=torch.float32)) > 0 or eps == 0
    return is_float and is_held and len(x.shape) >= 2 and weight.shape == x.shape[-1:]


def _operands(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    return x.float(), weight.float(), torch.full((), eps, dtype=torch.float32)


def _outputs(x: Tensor, weight: Tensor, eps: Tensor) -> tuple[Tensor, ...]:
    return (torch.empty_like(x),)


def _result(outputs: tuple[Tensor, ...], x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return outputs[0].to(x.dtype)


def _config(x: Tensor, weight: Tensor, eps: float) -> str:
    return str(x.dim() - 1)


def _examples(generator: torch.Generator) -> Sequence[tuple[Any, ...]]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return (
        (normal(1, 64).bfloat16(), normal(64).bfloat16(), 1e-20),
        (normal(4, 3, 128) * 1e3, normal(128), 1e-6),
        (normal(4, 128).bfloat16() * 1e-3, normal(128), 1e-6),
        (torch.zeros(2, 32), normal(32), 1e-20),
        (normal(3, 96).half(), normal(96).half(), 1e-5),
    )


RMS_NORM = DeviceKernel(
    name="compiler's rms_norm",
    operator="deepinfer.rms_norm.default",
    targets=("trn1", "trn2", "trn3"),
    accepts=_accepts,
    operands=_operands,
    outputs=_outputs,
    result=_result,
    code=CompilerCall("AwsNeuronRmsNorm", _config),
    examples=_examples,
    bars={torch.bfloat16: Bar(1, 1e-2), torch.float16: Bar(1, 1e-2), torch.float32: Bar(8)},
    evidence="reported",
    source="its name: AWS Neuron documentation, error NCC_EVRF015; operands (input, weight, float32 eps) and dimension "
    "as the config: public source of torch_neuronx, RmsNorm; float32 around it: neuronx-distributed-inference",
)
"""All in float32, as neuronx-distributed-inference calls it, and as the operator is defined."""
