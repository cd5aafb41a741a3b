from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.torch_compile.result_memory import ResultMemory

LAYOUTS = {
    "whole": lambda x: x,
    "from an offset": lambda x: x[2:],
    "transposed": lambda x: x.t(),
    "every second column": lambda x: x[:, 1::2],
    "a column": lambda x: x[:, 1],
    "one element": lambda x: x[3, 2],
    "nothing": lambda x: x[6:],
    "expanded": lambda x: x[1:2].expand(5, 4),
    "overlapping": lambda x: x.view(-1).unfold(0, 3, 1),
    "other dimensions": lambda x: x.view(2, 3, 4).permute(2, 0, 1)[1:],
}


@pytest.mark.parametrize("view", LAYOUTS.values(), ids=LAYOUTS)
def test_values_lie_as_those_of_the_traced_result(view):
    expected = view(torch.arange(24.0).reshape(6, 4))
    (result,) = ResultMemory([expected]).arrange([expected.clone(memory_format=torch.contiguous_format)])
    assert torch.equal(result, expected)
    assert result.stride() == expected.stride()
    assert result.storage_offset() == expected.storage_offset()
    assert result._base is None


@pytest.mark.parametrize(
    "names", [("whole", "from an offset"), ("from an offset", "a column"), ("expanded", "nothing")]
)
def test_results_that_are_views_of_each_other_share_memory(names):
    x = torch.arange(24.0).reshape(6, 4)
    traced = [LAYOUTS[name](x) for name in names]
    results = ResultMemory(traced).arrange([one.clone(memory_format=torch.contiguous_format) for one in traced])
    assert len({one.untyped_storage().data_ptr() for one in results}) == 1
    for one, expected in zip(results, traced, strict=True):
        assert torch.equal(one, expected)
        assert one.storage_offset() == expected.storage_offset()


def test_contiguous_values_are_not_copied():
    values = [torch.ones(3), torch.ones(4)]
    traced = [torch.empty(3, device="meta"), torch.empty(4, device="meta")]
    assert [one is value for one, value in zip(ResultMemory(traced).arrange(values), values, strict=True)] == [
        True,
        True,
    ]
    whole = torch.empty(6, 4, device="meta")
    values = [torch.ones(6, 4), torch.ones(4)]
    assert ResultMemory([whole, whole[1]]).arrange(values)[1].data_ptr() == values[0][1].data_ptr()
