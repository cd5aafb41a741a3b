from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.errors import CaptureError

aten = torch.ops.aten


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.randn(9, 4))
        self.register_buffer("root", torch.zeros(8, 4))

    def forward(self, tokens, rows):
        hidden = self.project(self.table[tokens])
        self.root.index_put_((rows,), hidden)
        return {"hidden": hidden, "both": [self.root[rows], tokens], "layers": 1}


def example() -> dict[str, torch.Tensor]:
    return {"tokens": torch.tensor([1, 2]), "rows": torch.tensor([3, 4])}


def test_every_input_has_its_role_and_name():
    step = Step()
    captured = capture(step, example())
    roles = {one.qualified_name: one.role for one in captured.inputs}
    assert roles == {
        "project.weight": "param",
        "project.bias": "param",
        "table": "buffer",
        "root": "kv",
        "tokens": "slot",
        "rows": "slot",
    }
    for one in captured.inputs:
        owner = (
            None
            if one.role == "slot"
            else step.get_parameter(one.qualified_name)
            if one.role == "param"
            else step.get_buffer(one.qualified_name)
        )
        assert one.tensor is owner
        assert one.alias_root is None
        if owner is not None:
            assert (one.dtype, one.shape, one.stride) == (owner.dtype, tuple(owner.shape), owner.stride())
    names = [node.name for node in captured.module.graph.find_nodes(op="placeholder")]
    assert names == [one.name for one in captured.inputs]


def test_the_result_structure_is_described():
    captured = capture(Step(), example())
    assert captured.result == {
        "dict": {
            "hidden": {"output": 0},
            "both": {"list": [{"output": 1}, {"output": 2}]},
            "layers": {"constant": 1},
        }
    }
    (output,) = captured.module.graph.find_nodes(op="output")
    assert len(output.args[0]) == 3


def test_the_graph_is_functional_aten_with_trailing_updates():
    captured = capture(Step(), example())
    nodes = [node for node in captured.module.graph.nodes if node.op == "call_function"]
    assert nodes[-1].target is aten.copy_.default
    assert not [node for node in nodes[:-1] if node.target._schema.is_mutable]
    assert all(isinstance(node.meta["val"], torch.Tensor) for node in nodes)
    assert all("test_capture.py" in node.stack_trace for node in nodes)


def test_nothing_is_executed():
    step = Step()
    state = torch.get_rng_state()
    capture(step, example())
    assert not step.root.any()
    assert torch.equal(torch.get_rng_state(), state)


def test_functions_and_positional_inputs_are_captured():
    captured = capture(lambda x, y: x + y, [torch.zeros(2), torch.ones(2)])
    assert [(one.role, one.qualified_name) for one in captured.inputs] == [("slot", "x"), ("slot", "y")]
    assert captured.result == {"output": 0}


def test_views_name_the_input_they_share_memory_with():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Parameter(torch.randn(4, 4))
            self.register_buffer("second", self.first.detach()[1:])

        def forward(self, x):
            return x @ self.first + self.second.sum()

    captured = capture(Tied(), [torch.zeros(2, 4)])
    assert {one.qualified_name: one.alias_root for one in captured.inputs} == {
        "x": None,
        "first": None,
        "second": "first",
    }


def test_custom_operators_stay_one_node():
    with torch.library._scoped_library("capture_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        captured = capture(lambda x: torch.ops.capture_test.twice(x) + 1, [torch.zeros(3)])
        targets = [node.target for node in captured.module.graph.nodes if node.op == "call_function"]
        assert targets == [torch.ops.capture_test.twice.default, aten.add.Tensor]


def test_capture_works_often_and_beside_compiled_code():
    step = Step()
    compiled = torch.compile(step.requires_grad_(False), backend="aot_eager")
    compiled(**example())
    graphs = [str(capture(step, example()).module.graph) for _ in range(12)]
    assert len(set(graphs)) == 1
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiled(**example())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


def branches_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x


def reads_an_item(x):
    return x * x[0].item()


def depends_on_values(x):
    return x[x > 0]


def prints(x):
    print("hello")
    return x + 1


def breaks(x):
    torch._dynamo.graph_break()
    return x + 1


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x + self.steps


@pytest.mark.parametrize(
    ("function", "reason", "advice"),
    [
        (branches_on_data, "Data-dependent branching", "torch.where"),
        (reads_an_item, "depends on the values of a tensor", "keep numbers in tensors"),
        (depends_on_values, "depends on the values of a tensor", "masks of fixed size"),
        (prints, "builtin operator `print`", "out of the decode step"),
        (breaks, "graph_break", "remove the graph break"),
        (Counts(), "assigns to a Python object", "registered buffer"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_one_graph_is_refused_with_its_line(function, reason, advice):
    with pytest.raises(CaptureError, match=r"test_capture\.py:\d+") as caught:
        capture(function, [torch.randn(4)])
    assert reason in str(caught.value)
    assert advice in str(caught.value)


def test_a_step_without_tensors_is_refused():
    with pytest.raises(CaptureError, match="nothing to compile"):
        capture(lambda x: 3, [torch.zeros(2)])


def test_one_tensor_for_two_arguments_is_refused():
    x = torch.zeros(2)
    with pytest.raises(CaptureError, match="'a' and 'b' are one tensor"):
        capture(lambda a, b: a + b, [x, x])


def test_wrong_example_inputs_are_refused():
    with pytest.raises(CaptureError, match="cannot be called with the example inputs"):
        capture(Step(), {"tokens": torch.tensor([1])})


def test_an_updated_argument_is_refused():
    with pytest.raises(CaptureError, match="updates its argument 'x'"):
        capture(lambda x: x.add_(1) * 2, [torch.zeros(2)])


def test_updates_of_shared_memory_are_refused():
    class Overlapping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("root", torch.zeros(8))
            self.register_buffer("window", self.root[:4])

        def forward(self, x):
            self.window.add_(x)
            return self.root.sum() + x

    with pytest.raises(CaptureError, match="one buffer"):
        capture(Overlapping(), [torch.ones(4)])


def test_an_unknown_result_type_is_refused():
    with pytest.raises(CaptureError, match="cannot be described"):
        capture(lambda x: {1: x + 1}, [torch.zeros(2)])
