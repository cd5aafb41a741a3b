import torch
from deepinfer_neuron.model.kernels.hyper_connection import hyper_connection_mix
from deepinfer_neuron.verification.inline import inline_decompositions
from deepinfer_neuron.verification.observed import run_observed
from deepinfer_neuron.verification.operator_walk import is_decomposed
from host_programs import trace


def test_written_out_decompositions_give_the_bits_of_the_operators(step):
    inlined = inline_decompositions(step.module)
    for actual, expected in zip(
        run_observed(inlined, step.inputs), run_observed(step.module, step.inputs), strict=True
    ):
        assert torch.equal(actual, expected)


def test_only_operators_that_loop_are_left(step):
    inlined = inline_decompositions(step.module)
    left = {node.target for node in inlined.graph.nodes if node.op == "call_function" and is_decomposed(node)}
    assert left == {torch.ops.deepinfer.sinkhorn.default}


def test_several_results_and_nested_operators_find_their_way():
    generator = torch.Generator().manual_seed(2)
    shapes = ((2, 4, 8), (24, 32), (24,), (3,))
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    graph = trace(lambda *given: hyper_connection_mix(*given, 1e-6, 1e-6, 3)[::2], inputs[0].bfloat16(), *inputs[1:])
    given = [inputs[0].bfloat16(), *inputs[1:]]
    for actual, expected in zip(
        run_observed(inline_decompositions(graph), given), run_observed(graph, given), strict=True
    ):
        assert torch.equal(actual, expected)


def test_pieces_are_placed_where_the_model_calls_the_operator(step):
    inlined = inline_decompositions(step.module)
    calls = [node for node in inlined.graph.nodes if node.op == "call_function"]
    assert all(node.stack_trace is None or "conftest.py" in node.stack_trace for node in calls)
    assert sum(node.stack_trace is not None for node in calls) > 50
