"""Every kernel: the shape rule and the decomposition agree with the eager body."""

import pytest
import torch
from deepinfer_neuron.compiler.lowering.record import record
from deepinfer_neuron.model.kernels.compressor import gated_pool
from deepinfer_neuron.model.kernels.engram import engram_gate
from deepinfer_neuron.model.kernels.experts import mix_experts, route, swiglu
from deepinfer_neuron.model.kernels.hyper_connection import (
    hyper_connection_collapse,
    hyper_connection_expand,
    hyper_connection_mix,
)
from deepinfer_neuron.model.kernels.indexing import candidate_mask, index_scores, select_top_rows
from deepinfer_neuron.model.kernels.linear import grouped_linear, quantized_linear
from deepinfer_neuron.model.kernels.normalization import rms_norm
from deepinfer_neuron.model.kernels.quantization import quantize_fp4, quantize_fp4_fine, quantize_fp8
from deepinfer_neuron.model.kernels.rotary import rotate
from deepinfer_neuron.model.kernels.sparse_attention import sparse_attention
from torch._decomp import decomposition_table
from torch._subclasses import FakeTensorMode

RANDOM = torch.Generator().manual_seed(7)


def bf16(*shape):
    return torch.randn(*shape, generator=RANDOM).bfloat16()


def f32(*shape):
    return torch.randn(*shape, generator=RANDOM)


def i32(high, *shape):
    return torch.randint(high, shape, generator=RANDOM, dtype=torch.int32)


def expert_arguments(rows, count):
    ids = torch.stack([torch.randperm(8, generator=RANDOM)[:count].sort().values for _ in range(rows)]).int()
    return bf16(rows, 64), ids, f32(rows, count).abs(), bf16(8, 32, 64), bf16(8, 32, 64), bf16(8, 64, 32), 2.0, 448.0


CASES = {
    "rms_norm": (rms_norm, (bf16(3, 64), bf16(64), 1e-20)),
    "quantize_fp8": (quantize_fp8, (bf16(3, 64),)),
    "quantize_fp8_to_224": (quantize_fp8, (bf16(3, 64), 224.0)),
    "quantize_fp4": (quantize_fp4, (bf16(3, 2, 64),)),
    "quantize_fp4_fine": (quantize_fp4_fine, (bf16(3, 64),)),
    "quantize_fp4_fine_to_240": (quantize_fp4_fine, (bf16(3, 64), 240.0)),
    "quantized_linear": (quantized_linear, (bf16(3, 64), bf16(32, 64), 224.0)),
    "quantized_linear_plain": (quantized_linear, (f32(3, 64), f32(32, 64), None)),
    "grouped_linear": (grouped_linear, (bf16(3, 2, 64), bf16(2, 16, 64))),
    "rotate": (rotate, (bf16(3, 4, 64), f32(3, 8), f32(3, 8), False)),
    "rotate_back": (rotate, (bf16(3, 64), f32(3, 8), f32(3, 8), True)),
    "mix": (hyper_connection_mix, (bf16(3, 4, 64), f32(24, 256), f32(24), f32(3), 1e-20, 1e-6, 20)),
    "collapse": (hyper_connection_collapse, (bf16(3, 4, 64), f32(3, 4))),
    "expand": (hyper_connection_expand, (bf16(3, 64), bf16(3, 4, 64), f32(3, 4), f32(3, 4, 4))),
    "sparse_attention": (sparse_attention, (bf16(3, 4, 32), bf16(3, 100, 32), f32(3, 100) > 0, f32(4), 0.2)),
    "index_scores": (index_scores, (bf16(3, 4, 32), bf16(3, 20, 32), bf16(3, 4))),
    "index_scores_shared": (index_scores, (bf16(3, 4, 32), bf16(1, 20, 32), bf16(3, 4))),
    "candidate_mask": (candidate_mask, (bf16(3, 45), i32(45, 3), 8, 2)),
    "select_top_rows": (select_top_rows, (bf16(3, 45), i32(45, 3), None, 8)),
    "select_top_rows_filtered": (select_top_rows, (bf16(3, 45), i32(45, 3), f32(3, 45) > 0, 8)),
    "select_more_than_there_are": (select_top_rows, (bf16(3, 5), i32(5, 3), None, 8)),
    "gated_pool": (gated_pool, (f32(3, 2, 64), f32(3, 2, 64), torch.bfloat16)),
    "engram_gate": (engram_gate, (bf16(3, 4, 64), bf16(3, 320), bf16(4, 64), bf16(4, 64), 1e-20)),
    "route": (route, (bf16(3, 64), f32(8, 64), f32(8), 2, 1.5)),
    "swiglu": (swiglu, (bf16(3, 64), bf16(3, 64), 1.0)),
    "mix_experts_gathered": (mix_experts, expert_arguments(2, 3)),
    "mix_experts_dense": (mix_experts, expert_arguments(5, 2)),
}


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("case", CASES)
def test_shape_rule_describes_the_result(case):
    operator, arguments = CASES[case]
    real = as_tuple(operator(*arguments))
    with FakeTensorMode() as mode:
        fake_arguments = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in arguments]
        fake = as_tuple(operator(*fake_arguments))
    assert [(value.shape, value.dtype, value.stride()) for value in fake] == [
        (value.shape, value.dtype, value.stride()) for value in real
    ]


@pytest.mark.parametrize("case", CASES)
def test_recorded_decomposition_equals_the_body_to_the_bit(case):
    operator, arguments = CASES[case]
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]

    def decomposed(*given):
        supply = iter(given)
        return decomposition_table[operator](
            *[next(supply) if isinstance(value, torch.Tensor) else value for value in arguments]
        )

    traced = record(decomposed, tensors)
    assert not any("deepinfer.mix_experts" in str(node.target) for node in traced.graph.nodes)
    expected, actual = as_tuple(operator(*arguments)), as_tuple(traced(*tensors))
    for left, right in zip(actual, expected, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("case", CASES)
def test_kernels_leave_their_arguments_alone(case):
    operator, arguments = CASES[case]
    before = [value.clone() for value in arguments if isinstance(value, torch.Tensor)]
    operator(*arguments)
    after = [value for value in arguments if isinstance(value, torch.Tensor)]
    assert all(torch.equal(left, right) for left, right in zip(before, after, strict=True))
