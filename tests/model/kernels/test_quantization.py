"""The simulated quantisers against golden values, and against the reference's in every fp8 range."""

import pytest
import torch
from deepinfer_neuron.model.checkpoint.formats import simulate_act_quant, simulate_fp4_e4m3
from deepinfer_neuron.model.kernels.quantization import quantize_fp4, quantize_fp4_fine, quantize_fp8
from deepinfer_neuron.settings import FP8_MAXIMA
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


ALL_BF16 = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16)
FINITE_BF16 = ALL_BF16[ALL_BF16.isfinite() & (ALL_BF16.float().abs() < 2.0**120)]
"""Beyond, a scale or its reciprocal leaves float32."""


@pytest.mark.parametrize("largest", FP8_MAXIMA)
@pytest.mark.parametrize(
    ("quantise", "reference"), [(quantize_fp8, simulate_act_quant), (quantize_fp4_fine, simulate_fp4_e4m3)]
)
def test_every_bfloat16_is_quantised_as_the_reference_does(quantise, reference, largest):
    """Each once as the largest of its block, and each among neighbours of its size and of every size."""
    alone = torch.zeros(len(FINITE_BF16), 32, dtype=torch.bfloat16)
    alone[:, 5] = FINITE_BF16
    kept = len(FINITE_BF16) // 32 * 32
    mixed = FINITE_BF16[:kept][torch.randperm(kept, generator=torch.Generator().manual_seed(1))]
    for values in (alone, FINITE_BF16[:kept].view(-1, 32), mixed.view(-1, 32)):
        actual, expected = quantise(values, largest), reference(values, largest=largest)
        assert torch.equal(actual.view(torch.int16), expected.view(torch.int16))
