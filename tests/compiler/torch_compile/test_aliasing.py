"""Results that are views: of inputs, of updated inputs, of inputs that share memory, and of each other."""

from __future__ import annotations

import itertools

import pytest
import torch
from deepinfer_neuron.compiler.torch_compile.aliasing import shared_memory
from deepinfer_neuron.errors import GraphError, InputError

VIEWS = {
    "itself": lambda x: x,
    "row": lambda x: x[1],
    "rows": lambda x: x[1:],
    "flat": lambda x: x.view(-1),
    "column": lambda x: x[:, 1],
    "columns": lambda x: x[:, ::2],
    "transposed": lambda x: x.t(),
    "same dtype": lambda x: x.to(torch.float32),
    "bits": lambda x: x.view(torch.int32),
}
OVERLAPS = {
    "apart": (slice(0, 2), slice(3, 6)),
    "later rows": (slice(None), slice(2, None)),
    "earlier rows": (slice(2, None), slice(None)),
    "same rows": (slice(1, 5), slice(1, 5)),
    "columns": (slice(None), (slice(None), slice(0, None, 2))),
}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_same_memory(step, places):
    """Compiled and eager give results of equal values and layouts, at equal places of equal memory."""
    outcomes = []
    for function in (step, torch.compile(step, backend="deepinfer_neuron")):
        memory = torch.arange(24.0).reshape(6, 4)
        results = function(*(memory[place] for place in places))
        start = memory.data_ptr()
        shared = [one.untyped_storage().data_ptr() == start for one in results]
        layouts = [
            (one.shape, one.stride(), one.storage_offset() if is_shared else None)
            for one, is_shared in zip(results, shared, strict=True)
        ]
        values = [one.clone() for one in results]
        for one in results:
            one.mul_(3)
        outcomes.append((shared, layouts, [*values, *results, memory]))
    (eager_shared, eager_layouts, eager_values), (shared, layouts, values) = outcomes
    assert shared == eager_shared
    assert layouts == eager_layouts
    for one, expected in zip(values, eager_values, strict=True):
        assert torch.equal(one, expected)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("places", OVERLAPS.values(), ids=OVERLAPS)
def test_a_view_of_an_input_while_another_is_updated(places, view):
    def step(updated, returned):
        updated.add_(100)
        return (view(returned),)

    assert_same_memory(step, places)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_of_an_updated_input(view):
    def step(x):
        x.mul_(2)
        return x.sum(0), view(x)

    assert_same_memory(step, (slice(1, 5),))


@pytest.mark.parametrize(("first", "second"), itertools.combinations(VIEWS.values(), 2))
def test_results_that_are_views_of_one_result(first, second):
    def step(x):
        y = x * 2
        return first(y), second(y)

    x = torch.arange(24.0).reshape(6, 4)
    compiled = torch.compile(step, backend="deepinfer_neuron")
    for function in (step, compiled):
        results = function(x)
        assert results[0].untyped_storage().data_ptr() == results[1].untyped_storage().data_ptr()
    for one, expected in zip(compiled(x), step(x), strict=True):
        assert torch.equal(one, expected)
        assert one.stride() == expected.stride()
        assert one.storage_offset() == expected.storage_offset()


def test_a_view_whose_place_would_be_lost_is_refused():
    def step(updated, returned, alone):
        updated.add_(100)
        alone.mul_(2)
        return returned[0], alone[1:]

    compiled = torch.compile(step, backend="deepinfer_neuron")
    memory, other = torch.arange(24.0).reshape(6, 4), torch.arange(24.0).reshape(6, 4)
    eager_memory, eager_other = memory.clone(), other.clone()
    results, expected = compiled(memory, memory[2:], other), step(eager_memory, eager_memory[2:], eager_other)
    assert all(torch.equal(one, same) for one, same in zip(results, expected, strict=True))
    with pytest.raises(InputError, match=r"graph inputs \[\d\] are views .*: return a clone, or pass clones"):
        compiled(memory, memory[2:], other[2:])
    assert torch.equal(memory, eager_memory)


def test_memory_is_told_by_storage_place_and_base():
    memory = torch.zeros(6, 4)
    assert shared_memory([memory, torch.zeros(6, 4)]) == ()
    kinds = [shared_memory([memory, other]) for other in (memory, memory[2:], memory[3:], memory[:, 1:], memory.t())]
    assert len(set(kinds)) == len(kinds)
    assert shared_memory([memory, memory[2:]]) == shared_memory([memory, memory[2:]])


def strided(x):
    return x.as_strided((2, 2), (1, 1), 2) * 10


def test_views_by_strides_count_from_the_start_of_the_memory():
    memory = torch.arange(8.0)
    compiled = torch.compile(strided, backend="deepinfer_neuron", fullgraph=True)
    assert torch.equal(compiled(memory[1:]), strided(memory[1:]))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: strided(x[1:]), backend="deepinfer_neuron", fullgraph=True)
    assert torch.equal(compiled(memory), strided(memory[1:]))


def test_a_program_with_views_by_strides_is_not_run_on_an_input_that_begins_elsewhere():
    memory = torch.arange(8.0)
    compiled = torch.compile(strided, backend="deepinfer_neuron", fullgraph=True)
    compiled(memory[1:])
    with pytest.raises(InputError, match=r"begins at element 0 .* compiled for one that begins at 1"):
        compiled(memory[:7])


def test_views_by_strides_outside_of_their_tensor_are_refused():
    compiled = torch.compile(strided, backend="deepinfer_neuron", fullgraph=True)
    with pytest.raises(
        Exception, match=r"as_strided.default at .*test_aliasing.py:\d+ reaches elements -1 to 1"
    ) as caught:
        compiled(torch.arange(8.0)[3:])
    assert isinstance(caught.value.inner_exception, GraphError)


@pytest.mark.parametrize(
    "copy", [torch.clone, lambda x: x.detach().clone(), lambda x: x.clone().detach(), lambda x: x + 0]
)
def test_a_copy_from_before_an_update_keeps_the_old_value(copy):
    def step(x):
        old = copy(x)
        x.add_(1)
        return old, x * 2

    assert_same_memory(step, (slice(1, 5),))
