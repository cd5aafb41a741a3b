from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.runtime.dtype_names import dtype_named, name_of


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float4_e2m1fn_x2, torch.bool])
def test_a_dtype_is_found_by_its_name(dtype: torch.dtype) -> None:
    assert dtype_named(name_of(dtype)) is dtype
    assert name_of(dtype) in repr(dtype)


@pytest.mark.parametrize("name", ["Tensor", "torch.float32", "f32", "", None, 1])
def test_what_is_not_the_name_of_a_dtype_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="is not a dtype"):
        dtype_named(name)
