from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.index_as_strided import index_as_strided

STRIDED = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((6,), (1,), 2), ((2, 3), (6, 2), 1), ((3, 2), (1, 3), 0), ((2, 4), (0, 1), 3), ((), (), 5)],
)
def test_a_strided_view_is_a_gather(checked, size, stride, offset):
    case = checked(lambda x: torch.as_strided(x * 2, size, stride, offset) + 1, [torch.randn(4, 5)])
    assert STRIDED & set(case.targets())
    assert index_as_strided(case.module, case.context) == 1
    assert not STRIDED & set(case.targets())
    case.assert_same_bits()


@pytest.mark.parametrize(("size", "stride", "offset"), [((6,), (1,), 2), ((2, 3), (6, 2), 1)])
def test_a_strided_scatter_is_a_store(checked, size, stride, offset):
    rows = torch.randn(size)
    case = checked(lambda x, y: torch.as_strided_scatter(x, y, size, stride, offset), [torch.randn(4, 5), rows])
    assert index_as_strided(case.module, case.context) == 1
    case.assert_same_bits()
