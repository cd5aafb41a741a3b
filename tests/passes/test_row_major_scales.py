from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.pipeline import run_passes
from deepinfer_neuron.passes.row_major_scales import row_major_scales
from hypothesis import given, settings
from hypothesis import strategies as st

aten = torch.ops.aten
E4M3, POWER = torch.float8_e4m3fn, torch.float8_e8m0fnu
POWERS = torch.tensor([[0.5, 4.0, 1.0, 2.0], [8.0, 0.25, 16.0, 1.0], [2.0, 2.0, 0.125, 32.0]])


class Scaled(torch.nn.Module):
    """A weight [32 * rows, 32 * columns] whose scales [rows, columns] are made of the stored ones by ``arrange``."""

    def __init__(self, stored, arrange, dtype=POWER):
        super().__init__()
        self.arrange = arrange
        self.register_buffer("scale", stored.to(dtype))
        rows, columns = arrange(stored).shape
        self.register_buffer("weight", torch.linspace(-3, 3, rows * columns * 64).view(rows * 8, columns * 8))

    def forward(self, x):
        scale = self.arrange(self.scale).float()
        weight = self.weight * scale.repeat_interleave(8, 0).repeat_interleave(8, 1)
        return x @ weight.t()


ARRANGED = {
    "transposed": lambda s: s.t(),
    "transposed and copied": lambda s: s.t().contiguous(),
    "padded": lambda s: s[:, :3],
    "strided": lambda s: s[::2],
    "column-major": lambda s: torch.as_strided(s, (3, 4), (1, 3)),
    "one of a stack": lambda s: s.view(3, 2, 2)[1],
    "transposed and padded": lambda s: s.t()[1:].contiguous(),
}


@pytest.mark.parametrize("dtype", [POWER, torch.float32, E4M3], ids=str)
@pytest.mark.parametrize("name", ARRANGED)
def test_a_scale_is_taken_in_the_order_it_is_used(checked, name, dtype):
    model = Scaled(POWERS, ARRANGED[name], dtype)
    columns = model.weight.shape[1]
    case = checked(model, [torch.randn(2, columns)], is_weight=lambda position: True)
    run_passes(case.module, case.context)
    ((position, layout),) = case.context.layouts.items()
    scale = placeholders(case.module)[position]
    assert scale.meta["val"].is_contiguous()
    assert tuple(scale.meta["val"].shape) == layout.size
    assert not {aten.t.default, aten.permute.default, aten.slice.Tensor, aten.select.int, aten.clone.default} & {
        user.target for user in scale.users
    }
    case.assert_same_bits()


@pytest.mark.parametrize("name", ["transposed", "padded"])
def test_inputs_that_are_no_weights_are_left_alone(checked, name):
    case = checked(Scaled(POWERS, ARRANGED[name]), [torch.randn(2, POWERS.shape[1] * 8)[:, :24]])
    assert row_major_scales(case.module, case.context) == 0
    case.assert_same_bits()


def test_scales_in_order_and_weights_of_products_are_left_alone(checked):
    case = checked(Scaled(POWERS, lambda s: s), [torch.randn(2, 32)], is_weight=lambda position: True)
    assert row_major_scales(case.module, case.context) == 0
    assert case.context.layouts == {}
    case.assert_same_bits()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(["t", "slice", "step", "clone", "view", "cast"]), max_size=5), st.booleans())
def test_random_arrangements_keep_every_bit(checked, steps, float8):
    operations = {
        "t": lambda s: s.t(),
        "slice": lambda s: s[:, 1:] if s.shape[1] > 1 else s,
        "step": lambda s: s[::2],
        "clone": lambda s: s.contiguous(),
        "view": lambda s: s.reshape(1, -1),
        "cast": lambda s: s.float(),
    }

    def arrange(s):
        for step in steps:
            s = operations[step](s)
        return s

    model = Scaled(POWERS, arrange, POWER if float8 else torch.float32)
    case = checked(model, [torch.randn(2, model.weight.shape[1])], is_weight=lambda position: True)
    run_passes(case.module, case.context)
    case.assert_same_bits()
