from __future__ import annotations

import torch
from deepinfer_neuron.compiler.torch_compile.open_numbers import open_numbers, with_numbers


def graphs_of(function, *calls, **keywords):
    """The graphs that Dynamo makes of the calls, with the inputs that each was called with."""
    graphs = []

    def backend(module, example_inputs):
        def call(*inputs):
            graphs.append((module, inputs))
            return module.forward(*inputs)

        return call

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, **keywords)
    for arguments in calls:
        compiled(*arguments)
    return graphs


def test_a_graph_of_known_sizes_has_none():
    ((module, _),) = graphs_of(lambda x: x * 2, (torch.ones(3),))
    assert not open_numbers(module.graph)


def test_all_numbers_become_constants_and_the_graph_is_left_as_it_was():
    def function(x, count, factor):
        return (x * factor).reshape(-1, x.shape[0] // count)[:, :count]

    calls = [(torch.arange(6.0), 2, 0.5), (torch.arange(8.0), 4, 1.5)]
    (_, (module, inputs)) = graphs_of(function, *calls)
    numbers = open_numbers(module.graph)
    assert numbers.symbolic
    assert len(numbers.read) == 1
    text = module.code
    concrete = with_numbers(module, inputs)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    assert len(concrete.graph.find_nodes(op="placeholder")) == len(tensors)
    torch.testing.assert_close(concrete(*tensors)[0], function(*calls[1]))
    assert module.code == text


def test_calls_differ_by_layout_and_by_numbers_that_are_read():
    def function(x, factor):
        return x * factor

    (module, (x, factor)) = graphs_of(function, (torch.ones(2, 2), 0.5), (torch.ones(2, 2), 0.75))[1]
    numbers = open_numbers(module.graph)
    kinds = {
        numbers.of_call((x, factor)),
        numbers.of_call((x.t().contiguous().t(), factor)),
        numbers.of_call((x, factor * 2)),
        numbers.of_call((torch.zeros(3, 2), factor)),
        numbers.of_call((x + 1, factor.clone())),
    }
    assert len(kinds) == 4
