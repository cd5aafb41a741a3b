"""The simulated quantisers against golden values."""

import pytest
import torch
from deepinfer_neuron.model.kernels.quantization import quantize_fp4, quantize_fp4_fine, quantize_fp8
from safetensors.torch import load_file

QUANTISERS = {
    "act_quant_b32": quantize_fp8,
    "fp4_act_quant_b32_e8m0": quantize_fp4,
    "fp4_act_quant_b16_e4m3": quantize_fp4_fine,
    "fp4_act_quant_b16_e4m3_saturating": quantize_fp4_fine,
}


@pytest.fixture(scope="module")
def golden(request):
    return load_file(request.config.rootpath / "tests/vectors/quant_formats/quant_formats.safetensors")


@pytest.mark.parametrize("name", QUANTISERS)
def test_equals_the_golden_values_to_the_bit(golden, name):
    values, expected = golden[f"{name}.x"], golden[f"{name}.dequant"]
    actual = QUANTISERS[name](values.bfloat16()).float()
    assert torch.equal(actual.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("quantise", [quantize_fp8, quantize_fp4, quantize_fp4_fine])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantising_twice_changes_nothing_more(quantise, dtype):
    values = (torch.randn(64, 128, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    once = quantise(values)
    assert once.dtype == dtype
    assert torch.equal(quantise(once), once)
