from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.context import STAGE
from deepinfer_neuron.passes.mark_stages import LAST_STAGE, mark_stages
from deepinfer_neuron.passes.stage_boundary import STAGE_BOUNDARY, stage_boundary

aten = torch.ops.aten


def test_a_boundary_copies_its_tensors():
    x, y = torch.randn(3), torch.randn(2, 1).expand(2, 4)
    for source, result in zip((x, y), stage_boundary("here", x, y), strict=True):
        assert torch.equal(source, result)
        assert result.data_ptr() != source.data_ptr()
        assert result.is_contiguous()


def test_boundaries_go_and_leave_their_names_and_numbers(checked):
    def step(x):
        (x,) = stage_boundary("first", x + 1)
        (x,) = stage_boundary("second", x.sin())
        return x.cos()

    case = checked(step, [torch.randn(3)])
    assert STAGE_BOUNDARY in case.targets()
    assert mark_stages(case.module, case.context) == 2
    assert case.context.stage_names == ["first", "second", LAST_STAGE]
    calls = [node for node in case.module.graph.nodes if node.op == "call_function"]
    stages = {node.target: node.meta[STAGE] for node in calls}
    assert stages == {aten.add.Tensor: 0, aten.sin.default: 1, aten.cos.default: 2}
    case.assert_same_bits()


def test_a_graph_without_boundaries_is_one_stage(checked):
    case = checked(lambda x: x + 1, [torch.randn(3)])
    assert mark_stages(case.module, case.context) == 0
    assert case.context.stage_names == [LAST_STAGE]
    case.assert_same_bits()


@pytest.mark.parametrize("view", [lambda x: x.expand(4, -1, -1), lambda x: x.t(), lambda x: x[:, 1:]])
def test_a_view_is_copied_only_where_its_strides_change(checked, view):
    def step(x):
        (y,) = stage_boundary("here", view(x))
        return y.contiguous().view(-1) + 1

    case = checked(step, [torch.randn(3, 5)])
    (value,) = [node.args[1][0].meta["val"] for node in case.module.graph.nodes if node.target is STAGE_BOUNDARY]
    changes = torch.empty_like(value).stride() != value.stride()
    clones = case.targets().count(aten.clone.default)
    mark_stages(case.module, case.context)
    assert case.targets().count(aten.clone.default) == clones + changes
    case.assert_same_bits()


def test_an_update_after_a_boundary_leaves_the_value_before_it(checked):
    def step(x):
        (y,) = stage_boundary("here", x)
        y.add_(1)
        return x * 2, y

    case = checked(step, [torch.randn(3)])
    mark_stages(case.module, case.context)
    case.assert_same_bits()
