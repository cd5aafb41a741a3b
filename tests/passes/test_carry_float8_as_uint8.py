from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.carry_float8_as_uint8 import carry_float8_as_uint8
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.float8 import FORMATS
from deepinfer_neuron.passes.verify import NO_FLOAT8_BOUNDARY, verify
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx

aten = torch.ops.aten
E4M3, E5M2, POWER = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
WIDE = (torch.float32, torch.bfloat16, torch.float16)
BYTES = torch.arange(256, dtype=torch.uint8)


def carry(case) -> int:
    alias_input_mutations(case.module, case.context)
    changed = carry_float8_as_uint8(case.module, case.context)
    case.module.graph.lint()
    verify(case.module, case.context, [NO_FLOAT8_BOUNDARY])
    return changed


def has_float8(case) -> bool:
    return any(
        isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dtype in FORMATS
        for node in case.module.graph.nodes
    )


def float32_samples() -> torch.Tensor:
    """Every bfloat16, its neighbours and midpoints, and numbers spread over all float32 bits."""
    narrow = torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16
    near = [narrow + offset for offset in (0, 1, -1, 0x7FFF, 0x8000, 0x8001)]
    spread = torch.arange(-(2**31), 2**31, 9973, dtype=torch.int64).to(torch.int32)
    return torch.cat([*near, spread]).view(torch.float32)


@pytest.mark.parametrize("source", sorted(FORMATS, key=str), ids=str)
@pytest.mark.parametrize("result", WIDE, ids=str)
def test_every_byte_is_read_as_torch_reads_it(checked, source, result):
    expected = BYTES.view(source).to(result)
    case = checked(lambda x: x.to(result), [BYTES.view(source)[~expected.isnan()]])
    assert carry(case) == 3
    assert placeholders(case.module)[0].meta["val"].dtype is torch.uint8
    assert not has_float8(case)
    case.assert_same_bits()
    (read,) = fx.Interpreter(case.module).run(BYTES)
    assert torch.equal(read.isnan(), expected.isnan())


@pytest.mark.parametrize("target", sorted(FORMATS, key=str), ids=str)
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_numbers_are_rounded_as_torch_rounds_them(checked, source, target):
    values = float32_samples()
    if source is not torch.float32:
        values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(source)
    case = checked(lambda x: x.to(target), [values])
    assert carry(case) == 1
    assert case.context.result_dtypes == {0: target}
    assert not has_float8(case)
    case.assert_same_bits()


def test_a_target_with_the_narrow_range_saturates_at_240(checked):
    case = checked(lambda x: x.to(E4M3), [torch.tensor([1.0, 239.0, 241.0, -500.0, 0.3])], target="trn2")
    carry(case)
    (codes,) = fx.Interpreter(case.module).run(*case.tensors)
    assert codes.view(E4M3).tolist() == [1.0, 240.0, 240.0, -240.0, 0.3125]


@pytest.mark.parametrize("first", [E4M3, E5M2], ids=str)
def test_views_between_codes_and_float8_cancel(checked, first):
    case = checked(
        lambda x, y: (x.view(first).view(torch.uint8), y.view(torch.uint8).view(E5M2).float()),
        [BYTES, BYTES[:120].view(first)],
    )
    carry(case)
    assert [node.args[1] for node in case.module.graph.nodes if node.target is aten.view.dtype].count(first) == 0
    assert not has_float8(case)
    case.assert_same_bits()


class ScaledMatrix(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(64, 64).to(E4M3))
        self.register_buffer("scale", torch.randn(2, 2).abs().to(POWER))

    def forward(self, x):
        scale = self.scale.float().repeat_interleave(32, 0).repeat_interleave(32, 1)
        return x @ (self.weight.float() * scale).t()


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("root", torch.randn(8, 4).to(E4M3))

    def forward(self, x, rows):
        self.root.index_put_((rows,), x.to(E4M3))
        first, second = self.root[rows].split(2, dim=1)
        return torch.cat([second, first], 1).to(torch.bfloat16), self.root[:2]


def test_weights_and_scales_are_taken_as_bytes(checked):
    case = checked(ScaledMatrix(), [torch.randn(2, 64)])
    carry(case)
    assert sorted(map(str, case.context.carriers.values())) == ["torch.uint8"] * 2
    assert not has_float8(case)
    case.assert_same_bits()


def test_a_cache_is_stored_and_read_as_bytes(checked):
    case = checked(Cache(), [torch.randn(2, 4), torch.tensor([1, 4])])
    carry(case)
    ((position, source),) = case.context.aliases.items()
    assert case.context.carriers == {source: torch.uint8}
    assert case.context.result_dtypes == {1: E4M3}
    assert position not in case.context.result_dtypes
    assert not has_float8(case)
    case.assert_same_bits()


def test_an_operator_that_computes_on_float8_keeps_doing_so(checked):
    case = checked(
        lambda x, y: (torch.isnan(x), torch.full_like(x, 2.0), x == y),
        [BYTES.view(E5M2), BYTES.flip(0).view(E5M2)],
    )
    carry(case)
    case.assert_same_bits()


def test_a_graph_without_float8_is_left_alone(checked):
    case = checked(lambda x, y: (x.view(torch.int32), y + 1, x.to(torch.bfloat16)), [torch.randn(4), BYTES])
    before = str(case.module.graph)
    assert carry_float8_as_uint8(case.module, case.context) == 0
    assert str(case.module.graph) == before
    assert case.context.carriers == case.context.result_dtypes == {}


STEPS = {
    "store": lambda root, codes, x, rows: (root.index_put_((rows,), codes), codes, x)[1:],
    "store into a view": lambda root, codes, x, rows: (root[2:].index_put_((rows,), codes), codes, x)[1:],
    "load": lambda root, codes, x, rows: (root[rows + 1], x),
    "read": lambda root, codes, x, rows: (codes, codes.float() + x * 0.5),
    "write": lambda root, codes, x, rows: (x.to(codes.dtype), x),
    "swap halves": lambda root, codes, x, rows: (torch.cat(codes.split(2, 1)[::-1], 1), x),
    "turn": lambda root, codes, x, rows: (codes.flip(0), x.flip(1)),
    "transpose": lambda root, codes, x, rows: (codes.t().contiguous().view(2, 4), x),
    "through bytes": lambda root, codes, x, rows: (codes.view(torch.uint8)[[1, 0]].view(codes.dtype), x),
    "other format": lambda root, codes, x, rows: (codes, codes.to(torch.bfloat16).to(E5M2).float()),
    "choose": lambda root, codes, x, rows: (torch.where(x > 0, codes, root[rows]), x),
}


class RandomSteps(torch.nn.Module):
    def __init__(self, steps, dtype):
        super().__init__()
        self.steps = steps
        self.register_buffer("root", torch.linspace(-9, 9, 32).view(8, 4).to(dtype))

    def forward(self, x, rows):
        codes = x.to(self.root.dtype)
        for step in self.steps:
            codes, x = STEPS[step](self.root, codes, x, rows)
        return codes, x, self.root.float().sum(0)


STEP_LISTS = st.lists(st.sampled_from(sorted(STEPS)), max_size=6)


@settings(deadline=None, max_examples=10)
@given(STEP_LISTS, st.sampled_from([E4M3, E5M2]))
def test_random_graphs_keep_every_bit(checked, steps, dtype):
    assert_every_bit_is_kept(checked, steps, dtype)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(STEP_LISTS, st.sampled_from([E4M3, E5M2]))
def test_many_random_graphs_keep_every_bit(checked, steps, dtype):
    assert_every_bit_is_kept(checked, steps, dtype)


def assert_every_bit_is_kept(checked, steps, dtype):
    case = checked(RandomSteps(steps, dtype), [torch.linspace(-3, 5, 8).view(2, 4), torch.tensor([1, 4])])
    assert carry(case)
    assert not has_float8(case)
    case.assert_same_bits()
