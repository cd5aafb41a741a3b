"""Roundings that XLA's CPU compiler drops without the strict flags, whichever type a dot's result has."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.runtime.devices.pjrt import host_device
from deepinfer_neuron.runtime.devices.pjrt_client import STRICT_FLAGS, client, compile_options, device_list
from deepinfer_neuron.runtime.memory import shareable_copy

DOTS = {
    "bf16": """
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>""",
    "f32": """
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %y = stablehlo.convert %d : (tensor<64x64xf32>) -> tensor<64x64xbf16>""",
}

SUM_OF_SQUARES = """
func.func public @main(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64xf32> {DOT
  %wide = stablehlo.convert %y : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %square = stablehlo.multiply %wide, %wide : tensor<64x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %sum : tensor<64xf32>
}
"""


@pytest.mark.parametrize("dot", DOTS)
def test_a_dot_is_rounded_before_it_is_used(dot: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(64, 64, generator=generator).bfloat16() for _ in range(2))
    program = client().compile_and_load(
        SUM_OF_SQUARES.replace("DOT", DOTS[dot]).encode(), device_list(), compile_options()
    )
    device = host_device()
    memory = [shareable_copy(one) for one in (x, w)]
    (result,) = program.execute([device.buffer(one) for one in memory])
    rounded = (x.double() @ w.double().T).bfloat16().double().square().sum(-1)
    # Without its flag the error of either dot is above 1e-4: the squares are those of unrounded products.
    assert (device.to_torch(result).double() - rounded).norm() / rounded.norm() < 1e-5


def test_both_flags_are_part_of_every_executable() -> None:
    assert list(compile_options().env_option_overrides) == list(STRICT_FLAGS)
