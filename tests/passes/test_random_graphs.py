"""Level 1 for the whole list: random graphs keep every bit through each pass and through the cut into regions."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import GraphInput, capture
from deepinfer_neuron.passes.interval import Interval
from deepinfer_neuron.passes.pipeline import PASSES, run_passes
from deepinfer_neuron.verification.pass_comparison import CUT
from fed_steps import compare_call
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import ROWS, STEP_LISTS, STEPS, RandomModel, example_inputs

TARGETS = ("host", "trn2", "trn3")


def run_each_pass(checked, steps, target) -> set[str]:
    """Interpret the graph after every pass; returns the passes that changed it."""
    case = checked(RandomModel(steps), example_inputs(), target=target)

    def key(one: GraphInput):
        return one.name if one.tensor is None else (one.tensor.data_ptr(), one.dtype, one.shape, one.stride)

    def is_weight(position: int) -> bool:
        return case.inputs[position].role in {"param", "buffer"}

    case.context.input_keys = [key(one) for one in case.inputs]
    case.context.is_weight = is_weight
    case.context.holds_bfloat16 = lambda position: case.inputs[position].qualified_name in {"weight", "twin"}
    case.context.value_range = lambda position: Interval(0, ROWS - 1)
    changed: set[str] = set()

    def check(record, module, context):
        case.module.graph.lint()
        case.assert_same_bits()
        changed.update({record.name} if record.changed else ())

    run_passes(case.module, case.context, after_pass=check)
    return changed


def assert_every_pass_and_the_cut_agree(checked, steps, target):
    run_each_pass(checked, steps, target)
    names = ("x", "rows")
    graph = capture(RandomModel(steps), example_inputs())
    _, comparisons = compare_call(graph, dict(zip(names, example_inputs(), strict=True)))
    assert [one.name for one in comparisons] == [*(entry.name for entry in PASSES), CUT]
    assert [one.name for one in comparisons if one.mismatched] == []


@settings(deadline=None, max_examples=12)
@given(STEP_LISTS, st.sampled_from(TARGETS))
def test_random_graphs_keep_every_bit(checked, steps, target):
    assert_every_pass_and_the_cut_agree(checked, steps, target)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(STEP_LISTS, st.sampled_from(TARGETS))
def test_many_random_graphs_keep_every_bit(checked, steps, target):
    assert_every_pass_and_the_cut_agree(checked, steps, target)


def test_the_steps_give_every_pass_something_to_do(checked):
    changed = set().union(*(run_each_pass(checked, [*STEPS, "store one row"], target) for target in TARGETS))
    idle = {entry.name for entry in PASSES} - changed
    assert idle == {"order_cache_reads", "remove_dead_code"}, "the graphs are in order and have no dead code already"


def test_a_pass_that_changes_a_value_is_noticed(checked):
    case = checked(RandomModel(["scaled"]), example_inputs())

    def spoil(record, module, context):
        node = next(node for node in module.graph.nodes if node.target is torch.ops.aten.mul.Tensor)
        node.target = torch.ops.aten.add.Tensor
        with pytest.raises(AssertionError):
            case.assert_same_bits()
        node.target = torch.ops.aten.mul.Tensor

    run_passes(case.module, case.context, after_pass=spoil)
