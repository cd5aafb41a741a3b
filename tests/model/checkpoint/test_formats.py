"""Number formats and block quantisers against tables computed with ml_dtypes (tests/vectors/quant_formats)."""

from pathlib import Path

import ieee_e4m3
import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.checkpoint import formats
from safetensors.torch import load_file

VECTORS = load_file(str(Path(__file__).parents[2] / "vectors" / "quant_formats" / "quant_formats.safetensors"))
ALL_BYTES = torch.arange(256, dtype=torch.int32).to(torch.uint8)


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    nan = expected.isnan()
    assert torch.equal(actual.isnan(), nan)
    assert torch.equal(actual[~nan].view(torch.int32), expected[~nan].view(torch.int32))


@pytest.mark.parametrize(
    ("decode", "table"),
    [
        (formats.decode_e4m3fn, "e4m3fn.value"),
        (ieee_e4m3.decode_e4m3, "e4m3_ieee.value"),
        (formats.decode_ue8m0, "ue8m0.value"),
    ],
)
def test_every_byte_decodes_to_its_value(decode, table):
    assert_same_bits(decode(ALL_BYTES), VECTORS[table])


def test_every_e2m1_code_decodes_to_its_value_and_code_8_to_plus_zero():
    expected = VECTORS["e2m1.value"].clone()
    expected[8] = 0.0
    packed = formats.pack_e2m1(torch.arange(16, dtype=torch.uint8))
    assert_same_bits(formats.unpack_e2m1(packed), expected)


def test_packing_puts_the_even_element_in_the_low_nibble():
    assert formats.pack_e2m1(torch.tensor([1, 15, 7, 0], dtype=torch.uint8)).tolist() == [0xF1, 0x07]


def test_e4m3_encoders_round_every_tie_to_even_and_clamp():
    assert torch.equal(formats.encode_e4m3fn(VECTORS["round_e4m3fn.x"]), VECTORS["round_e4m3fn.byte"])
    assert torch.equal(ieee_e4m3.encode_e4m3(VECTORS["round_e4m3_ieee.x"]), VECTORS["round_e4m3_ieee.byte_clamped"])
    assert formats.encode_e4m3fn(torch.tensor([torch.inf, -1e30])).tolist() == [0x7E, 0xFE]


@pytest.mark.parametrize("decode", [formats.decode_e4m3fn, ieee_e4m3.decode_e4m3])
def test_e4m3_encoders_return_the_byte_of_every_finite_value(decode):
    encode = formats.encode_e4m3fn if decode is formats.decode_e4m3fn else ieee_e4m3.encode_e4m3
    values = decode(ALL_BYTES)
    finite = values.isfinite()
    assert torch.equal(encode(values[finite]), ALL_BYTES[finite])


def test_ue8m0_round_trips_every_byte_but_nan():
    assert torch.equal(formats.encode_ue8m0(formats.decode_ue8m0(ALL_BYTES[:255])), ALL_BYTES[:255])


def test_e2m1_rounds_every_tie_to_the_even_code():
    x = VECTORS["round_e2m1.x"]
    assert torch.equal(formats.encode_e2m1(x), VECTORS["round_e2m1.code"])
    assert_same_bits(formats.round_e2m1(x), VECTORS["e2m1.value"][VECTORS["round_e2m1.code"].long()])


@pytest.mark.parametrize("largest", [448, 6])
def test_pow2ceil_is_the_power_of_two_at_or_above(largest):
    table = f"pow2ceil_amax_over_{largest}"
    scale = formats.pow2ceil(VECTORS[f"{table}.product"])
    assert_same_bits(scale, VECTORS[f"{table}.scale"])
    assert torch.equal(formats.encode_ue8m0(scale), VECTORS[f"{table}.scale_byte"])


def test_act_quant():
    x = VECTORS["act_quant_b32.x"].bfloat16()
    values, scales = formats.act_quant(x)
    assert torch.equal(values, VECTORS["act_quant_b32.q_byte"])
    assert torch.equal(scales, VECTORS["act_quant_b32.scale_byte"])
    assert_same_bits(formats.simulate_act_quant(x).float(), VECTORS["act_quant_b32.dequant"])
    assert_same_bits(formats.simulate_act_quant(x.float()), VECTORS["act_quant_b32.dequant"])
    assert_same_bits(formats.decode_engram_rows(values, scales, torch.float32), VECTORS["act_quant_b32.dequant"])


def test_act_quant_to_half_the_range_halves_every_value_and_doubles_the_scale():
    """So no mantissa changes; only what falls below the smallest subnormal is rounded a bit earlier."""
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(3)) * torch.logspace(-6, 6, 128)
    whole, whole_scales = formats.act_quant(x)
    half, half_scales = formats.act_quant(x, largest=224.0)
    assert torch.equal(half_scales, whole_scales + 1)
    assert ieee_e4m3.decode_e4m3(half).abs().max() <= 224
    normal = (half & 0x7F) >= 16
    assert torch.equal(half[normal], whole[normal] - 8)
    assert 0.3 < normal.float().mean() < 1


def test_act_quant_to_240_stays_within_the_older_format():
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(3)) * torch.logspace(-6, 6, 128)
    values, scales = formats.act_quant(x, largest=240.0)
    assert ieee_e4m3.decode_e4m3(values).abs().max() == 240
    decoded = formats.dequantise_rows(ieee_e4m3.decode_e4m3(values), formats.decode_ue8m0(scales), torch.float32)
    assert torch.equal(decoded, formats.simulate_act_quant(x, largest=240.0))


@pytest.mark.parametrize(
    ("quantise", "simulate", "table"),
    [
        (formats.fp4_act_quant_e8m0, formats.simulate_fp4_e8m0, "fp4_act_quant_b32_e8m0"),
        (formats.fp4_act_quant_e4m3, formats.simulate_fp4_e4m3, "fp4_act_quant_b16_e4m3"),
        (formats.fp4_act_quant_e4m3, formats.simulate_fp4_e4m3, "fp4_act_quant_b16_e4m3_saturating"),
    ],
)
def test_fp4_act_quant(quantise, simulate, table):
    x = VECTORS[f"{table}.x"].bfloat16()
    packed, scales = quantise(x)
    assert torch.equal(packed, formats.pack_e2m1(VECTORS[f"{table}.code"]))
    assert torch.equal(scales, VECTORS[f"{table}.scale_byte"])
    assert_same_bits(simulate(x).float(), VECTORS[f"{table}.dequant"])
    assert_same_bits(simulate(x.float()), VECTORS[f"{table}.dequant"])


def test_simulated_quantisation_is_idempotent():
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(3)) * 10
    for simulate in (formats.simulate_act_quant, formats.simulate_fp4_e8m0, formats.simulate_fp4_e4m3):
        once = simulate(x.bfloat16())
        assert torch.equal(simulate(once), once)


def test_quantisers_refuse_a_partial_block():
    with pytest.raises(InputError, match="33 is not a multiple of the quantisation block 32"):
        formats.act_quant(torch.zeros(2, 33))


def test_stored_weights_decode_to_their_values():
    fp8 = [VECTORS[f"weight_fp8_32x32.{part}"] for part in ("weight_byte", "scale_byte", "dequant")]
    assert_same_bits(formats.decode_fp8_weight(fp8[0], fp8[1], torch.float32), fp8[2])
    fp4 = [VECTORS[f"weight_fp4_1x32.{part}"] for part in ("packed", "scale_byte", "dequant")]
    assert_same_bits(formats.decode_fp4_weight(fp4[0].view(torch.int8), fp4[1], torch.float32), fp4[2])
    rows = [VECTORS[f"engram_rows_1x32.{part}"] for part in ("row_byte", "scale_byte", "dequant")]
    assert_same_bits(
        formats.decode_engram_rows(
            rows[0].view(torch.float8_e4m3fn), rows[1].view(torch.float8_e8m0fnu), torch.float32
        ),
        rows[2],
    )


def test_decoded_weights_are_exact_in_bf16():
    fp8 = [VECTORS[f"weight_fp8_32x32.{part}"] for part in ("weight_byte", "scale_byte", "dequant")]
    assert torch.equal(formats.decode_fp8_weight(fp8[0], fp8[1], torch.bfloat16).float(), fp8[2])
