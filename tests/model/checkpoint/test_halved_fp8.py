"""fp8 weights in the range that ends at 240: every byte, every scale, and a matrix of each."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError
from deepinfer_neuron.model.checkpoint.formats import decode_e4m3fn, decode_fp8_weight, decode_ue8m0
from deepinfer_neuron.model.checkpoint.halved_fp8 import double_ue8m0, halve_e4m3
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from ieee_e4m3 import count_lost_bits, decode_e4m3

BYTES = torch.arange(256, dtype=torch.uint8)
MAGNITUDE = BYTES & 0x7F
IS_NAN = MAGNITUDE == 0x7F
LOSES_A_BIT = (MAGNITUDE < 16) & (MAGNITUDE % 2 == 1)
"""Odd multiples of the smallest subnormal that a half of has no code."""


def test_every_byte_is_halved_exactly_or_rounded_to_even():
    halved = halve_e4m3(BYTES)
    exact = ~LOSES_A_BIT & ~IS_NAN
    assert torch.equal(decode_e4m3fn(halved)[exact], decode_e4m3fn(BYTES)[exact] / 2)
    assert torch.equal(halved[LOSES_A_BIT] & 0x7F, torch.tensor([0, 2, 2, 4, 4, 6, 6, 8], dtype=torch.uint8).repeat(2))
    assert torch.equal(halved & 0x80, BYTES & 0x80)


def test_halves_mean_the_same_in_both_formats_and_end_at_224():
    halved = halve_e4m3(BYTES[~IS_NAN])
    assert torch.equal(decode_e4m3(halved), decode_e4m3fn(halved))
    assert decode_e4m3(halved).abs().max() == 224


def test_what_is_no_number_stays_none_in_both_formats():
    halved = halve_e4m3(BYTES[IS_NAN])
    assert torch.equal(halved, BYTES[IS_NAN])
    assert decode_e4m3(halved).isnan().all()


def test_float8_tensors_are_read_by_their_bytes():
    assert torch.equal(halve_e4m3(BYTES.view(torch.float8_e4m3fn)), halve_e4m3(BYTES))
    assert torch.equal(double_ue8m0(BYTES[:254].view(torch.float8_e8m0fnu)), double_ue8m0(BYTES[:254]))


def test_lost_bits_are_counted_by_byte():
    lost = [count_lost_bits(BYTES[byte : byte + 1]) for byte in range(256)]
    assert lost == LOSES_A_BIT.int().tolist()
    assert count_lost_bits(BYTES) == 16


def test_every_scale_is_doubled():
    assert torch.equal(decode_ue8m0(double_ue8m0(BYTES[:254])), decode_ue8m0(BYTES[:254]) * 2)


@pytest.mark.parametrize("byte", [254, 255])
def test_a_scale_without_a_double_is_refused(byte):
    with pytest.raises(CheckpointError, match="has no double"):
        double_ue8m0(torch.tensor([3, byte], dtype=torch.uint8))


def test_a_matrix_changes_only_where_bits_are_lost():
    stored = BYTES[~IS_NAN].repeat(4).view(8, 127)
    scale = torch.tensor([[0, 1, 120, 253]], dtype=torch.uint8)
    before = decode_fp8_weight(stored, scale, torch.float32)
    after = decode_fp8_weight(halve_e4m3(stored), double_ue8m0(scale), torch.float32)
    changed = before != after
    assert torch.equal(changed, LOSES_A_BIT[stored.long()])
    assert int(changed.sum()) == count_lost_bits(stored) == 64


def test_a_checkpoint_is_read_in_either_range(nano_a):
    prefix = "layers.0.attn.wq_a"
    with open_checkpoint(nano_a) as checkpoint:
        stored = checkpoint.tensor(f"{prefix}.weight")
        full, halved = (checkpoint.decoded(prefix, torch.bfloat16, halved) for halved in (False, True))
        expert = "layers.0.ffn.experts.0.w1"
        assert torch.equal(*(checkpoint.decoded(expert, torch.bfloat16, halved) for halved in (False, True)))
    assert int((full != halved).sum()) == count_lost_bits(stored)
    assert count_lost_bits(stored) < stored.numel() // 10
