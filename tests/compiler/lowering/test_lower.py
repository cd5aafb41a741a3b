"""Refusals, source locations, interfaces and layout of the lowered module."""

from __future__ import annotations

import operator

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.errors import LoweringError
from deepinfer_neuron.runtime.artifacts import TensorType
from host_programs import Host, case, graph_of, trace
from torch import fx

aten = torch.ops.aten
FAST = LoweringOptions()


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def with_trace(module: fx.GraphModule, file: str, line: int) -> fx.GraphModule:
    """Give every call a source line, inside a frame of PyTorch."""
    torch_frame = f'  File "{torch.__path__[0]}/nn/functional.py", line 7, in silu'
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.meta["stack_trace"] = f'  File "{file}", line {line}, in forward\n    y = f(x)\n{torch_frame}\n'
    return module


def test_locations_name_the_model(host: Host) -> None:
    module = with_trace(trace(lambda x: torch.tanh(x), torch.zeros(3)), "/somewhere/attention.py", 41)
    assert '"attention.py":41' in lower_graph(module, FAST).text(locations=True)


def test_locations_survive_compilation(host: Host) -> None:
    module = with_trace(trace(lambda x: torch.tanh(x), torch.zeros(3)), "/somewhere/attention.py", 41)
    program = host.load(module).optimized_hlo()
    assert "attention.py" in program
    assert "41" in program


def test_all_missing_operators_are_in_one_error() -> None:
    module = graph_of([case(aten.add.Tensor, torch.zeros(3), 1), case(aten.cholesky.default, torch.eye(3))])[0]
    node = module.graph.call_function(aten.nonzero.default, (next(iter(module.graph.nodes)),))
    node.meta["val"] = torch.zeros(2, 1)
    with pytest.raises(LoweringError) as caught:
        lower_graph(with_trace(module, "/somewhere/router.py", 12), FAST)
    message = str(caught.value)
    assert "aten.cholesky.default at router.py:12: no lowering" in message
    assert "aten.nonzero.default at router.py:12" in message
    assert "torch.where" in message


def test_masked_reads_are_refused() -> None:
    x, mask = torch.zeros(4, 3), torch.ones(4, dtype=torch.bool)
    module = fx.GraphModule(torch.nn.Module(), fx.Graph())
    nodes = [module.graph.placeholder(name) for name in ("x", "mask")]
    for node, value in zip(nodes, (x, mask), strict=True):
        node.meta["val"] = value
    call = module.graph.call_function(aten.index.Tensor, (nodes[0], [nodes[1]]))
    call.meta["val"] = x
    module.graph.output((call,))
    with pytest.raises(LoweringError, match="boolean mask"):
        lower_graph(with_trace(module, "/somewhere/router.py", 12), FAST)


def test_errors_inside_a_rule_name_the_source_line() -> None:
    module = graph_of(
        [case(aten.index_put.default, torch.zeros(3, 2), [torch.ones(3, dtype=torch.bool)], torch.zeros(3, 2))]
    )[0]
    with pytest.raises(LoweringError, match=r"index_put.default at router.py:12"):
        lower_graph(with_trace(module, "/somewhere/router.py", 12), FAST)


def test_none_outputs_are_refused() -> None:
    module = trace(lambda x: (x + 1,), torch.zeros(3))
    (output,) = module.graph.find_nodes(op="output")
    output.args = ((output.args[0][0], None),)
    with pytest.raises(LoweringError, match="output 1 of the graph is None"):
        lower_graph(module, FAST)


def test_dynamic_shapes_are_refused() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(lambda x: x + 1, tracing_mode="symbolic")(torch.zeros(3, 4))
    with pytest.raises(LoweringError, match="dynamic shape"):
        lower_graph(module, FAST)


@pytest.mark.parametrize(
    ("aliases", "message"),
    [({0: 1}, "cannot reuse the memory of input 1"), ({0: 0, 1: 0}, "reuse the memory of one input")],
)
def test_wrong_aliases_are_refused(aliases: dict[int, int], message: str) -> None:
    module = trace(lambda x, y: (x + 1, x * 2, y), torch.zeros(3), torch.zeros(4))
    with pytest.raises(LoweringError, match=message):
        lower_graph(module, FAST, aliases)


def test_the_interface_is_reported() -> None:
    module = trace(lambda x, i: (x[i], x.sum()), torch.zeros(3, 2, dtype=torch.bfloat16), torch.tensor([1]))
    lowered = lower_graph(module, LoweringOptions(numerics="exact", float64=True))
    assert lowered.inputs == (TensorType(torch.bfloat16, (3, 2)), TensorType(torch.int64, (1,)))
    assert lowered.outputs == (TensorType(torch.bfloat16, (1, 2)), TensorType(torch.bfloat16, ()))
    assert lowered.runtime_zero
    assert lowered.operator_counts == {"aten.index.Tensor": 1, "aten.sum.default": 1}


def test_assertions_are_dropped() -> None:
    module = trace(lambda x: (x + 1,), torch.zeros(3))
    nodes = list(module.graph.nodes)
    with module.graph.inserting_after(nodes[1]):
        module.graph.call_function(aten._assert_async.msg, (nodes[1], "message"))
    assert "assert" not in lower_graph(module, FAST).text()


def test_fast_numerics_have_no_float64_inside() -> None:
    module = trace(lambda x: (torch.exp(x.double()).float(), x.double() + 1), torch.zeros(3))
    text = lower_graph(module, FAST).text()
    assert "exponential" in text
    assert "tensor<3xf64>) -> tensor<3xf64>" not in text
    assert text.count("f64") == 2 + 1, "only the result's type, the return and the final conversion"


def test_transposed_weights_are_read_in_place() -> None:
    x, weight = torch.zeros(4, 8, dtype=torch.bfloat16), torch.zeros(6, 8, dtype=torch.bfloat16)
    text = lower_graph(trace(lambda x, w: (x @ w.t(),), x, weight), FAST).text()
    assert "contracting_dims = [1] x [1] : (tensor<4x8xbf16>, tensor<6x8xbf16>) -> tensor<4x6xf32>" in text


def test_batched_transposes_are_read_in_place() -> None:
    q, k = torch.zeros(2, 4, 8), torch.zeros(2, 6, 8)
    text = lower_graph(trace(lambda q, k: (torch.bmm(q, k.transpose(1, 2)),), q, k), FAST).text()
    assert "batching_dims = [0] x [0], contracting_dims = [2] x [2]" in text


def test_indices_are_int32() -> None:
    def step(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[i], x.gather(0, i[:, None]), aten.index_put(x, [i], x[:1]), torch.topk(x, 2)[0]

    text = lower_graph(trace(step, torch.zeros(3, 2), torch.tensor([1])), FAST).text()
    for line in text.splitlines():
        if "gather" in line or "scatter" in line or "sort" in line:
            assert "xi64>" not in line.split(" -> ")[0].split(" : ")[-1]


def test_lowering_is_reproducible() -> None:
    module = trace(lambda x: torch.softmax(x, -1), torch.zeros(3, 4))
    assert lower_graph(module, FAST).bytecode == lower_graph(module, FAST).bytecode


def test_results_of_split_are_picked() -> None:
    module = trace(lambda x: x.split(2)[1] + 1, torch.zeros(4))
    assert any(node.target is operator.getitem for node in module.graph.nodes)
    assert lower_graph(module, FAST).outputs == (TensorType(torch.float32, (2,)),)
