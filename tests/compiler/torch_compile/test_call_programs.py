"""Every call of a compiled function runs a program: comparing values alone cannot tell that from eager."""

from __future__ import annotations

import math
import threading
import warnings

import pytest
import torch
from deepinfer_neuron.compiler.torch_compile.call_programs import CallPrograms
from torch._dynamo.utils import counters

BACKEND = "deepinfer_neuron"


@pytest.fixture(autouse=True)
def counted():
    torch._dynamo.reset()
    counters[BACKEND].clear()
    yield
    torch._dynamo.reset()


def compiled_and_run():
    return counters[BACKEND]["programs_compiled"], counters[BACKEND]["programs_run"]


def assert_counted(function, calls, expected, **keywords):
    """Each call equals eager and runs one program, and ``expected`` programs are compiled after each of them."""
    compiled = torch.compile(function, backend=BACKEND, fullgraph=True, **keywords)
    for number, (arguments, programs) in enumerate(zip(calls, expected, strict=True), start=1):
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        assert compiled_and_run() == (programs, number)


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_new_sizes(dynamic):
    calls = [(torch.ones(size, 2),) for size in (3, 5, 7, 5, 3)]
    assert_counted(lambda x: x.sum(0) * x.shape[0], calls, [1, 2, 3, 3, 4 if dynamic is None else 3], dynamic=dynamic)


def test_a_size_marked_as_dynamic():
    x = torch.ones(3, 2)
    torch._dynamo.mark_dynamic(x, 0)
    assert_counted(lambda x: x + x.shape[0], [(x,), (torch.ones(4, 2),), (x,)], [1, 2, 2])


@pytest.mark.parametrize("numbers", [(2, 3, 4, 4), (0.5, 0.75, math.inf, math.inf), (True, False, True, False)])
def test_changed_numbers(numbers):
    calls = [(torch.ones(3), number) for number in numbers]
    programs = len({*numbers})
    assert_counted(lambda x, number: x * number, calls, [1, 2, programs, programs])


def test_numbers_that_are_results():
    def count(x, number):
        return x * number, x.shape[0] * 2, number + 1

    assert_counted(count, [(torch.ones(size), size + 2) for size in (2, 3, 5, 5)], [1, 2, 3, 3])


def test_numbers_in_python_arithmetic():
    def scale(x, number):
        return torch.full((2,), number) + math.floor(number) * x.sum() / number

    assert_counted(scale, [(torch.ones(3), 1.5), (torch.ones(4), 2.5)], [1, 2], dynamic=True)


def test_a_number_read_from_an_input():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        lengths = [(torch.arange(5.0), torch.tensor(length)) for length in (2, 3, 2)]
        assert_counted(lambda x, length: x[: length.item()] * 2, lengths, [1, 2, 2])


def test_updates_of_inputs_of_new_sizes():
    def step(x, y):
        x.add_(y)
        return x * 2, x.shape[0]

    compiled = torch.compile(step, backend=BACKEND, dynamic=True)
    for number, size in enumerate((3, 4, 3), start=1):
        x, eager_x = torch.ones(size), torch.ones(size)
        torch.testing.assert_close(compiled(x, torch.ones(size)), step(eager_x, torch.ones(size)))
        assert torch.equal(x, eager_x)
        assert compiled_and_run() == (min(number, 2), number)


def test_training_with_new_sizes():
    linear = torch.nn.Linear(4, 4)
    compiled = torch.compile(linear, backend=BACKEND)
    for number, (rows, programs) in enumerate(((2, 2), (3, 4), (5, 6), (5, 6)), start=1):
        x = torch.randn(rows, 4)
        linear.zero_grad()
        compiled(x).square().sum().backward()
        ours = linear.weight.grad.clone()
        linear.zero_grad()
        linear(x).square().sum().backward()
        torch.testing.assert_close(ours, linear.weight.grad)
        assert compiled_and_run() == (programs, 2 * number)


def test_a_branch_on_a_size_is_compiled_or_refused_on_either_side():
    compiled = torch.compile(
        lambda x: torch.linalg.svd(x)[1] if x.shape[0] > 3 else x * 2, backend=BACKEND, fullgraph=True
    )
    for size in (2, 3):
        compiled(torch.ones(size, size))
    with pytest.raises(Exception, match=r"aten\._linalg_svd"):
        compiled(torch.ones(4, 4))
    assert compiled_and_run() == (2, 2)


def test_a_compiled_function_inside_another():
    inner = torch.compile(lambda x: x * 3, backend=BACKEND)

    @torch._dynamo.disable
    def hidden(x):
        return inner(x)

    for middle, pieces in ((inner, 1), (hidden, 3)):
        torch._dynamo.reset()
        counters[BACKEND].clear()
        outer = torch.compile(lambda x, middle=middle: middle(x + 1) + 1, backend=BACKEND)
        for number, size in enumerate((2, 3, 5), start=1):
            assert torch.equal(outer(torch.ones(size)), torch.full((size,), 7.0))
            assert compiled_and_run() == (pieces * number, pieces * number)


def test_after_a_reset():
    function = torch.compile(lambda x: x * 2, backend=BACKEND)
    function(torch.ones(3))
    torch._dynamo.reset()
    function(torch.ones(3))
    assert compiled_and_run() == (2, 2)


def test_threads_that_meet_a_new_size_at_once():
    compiled = torch.compile(lambda x: x * 2, backend=BACKEND, dynamic=True)
    compiled(torch.ones(3))
    together, results = threading.Barrier(4), []

    def call():
        together.wait()
        results.append(compiled(torch.ones(5)))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.tolist() for result in results] == [[2.0] * 5] * 4
    assert compiled_and_run()[0] == 2


def test_the_programs_used_last_are_kept_and_it_is_said_once():
    made = []

    def compile_call(inputs):
        made.append(inputs[0])
        return lambda size: size * 10

    programs = CallPrograms(compile_call, lambda inputs: inputs[0], "sizes", maximum=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert [programs(size) for size in (1, 2, 1, 3, 1, 2, 3)] == [10, 20, 10, 30, 10, 20, 30]
    assert made == [1, 2, 3, 2, 3]
    assert [str(one.message).split(":")[0] for one in said] == ["a graph met more than 2 kinds of sizes"]


def test_a_call_that_cannot_be_compiled_is_tried_again():
    def refuse(inputs):
        raise ValueError(f"no program for {inputs[0]}")

    programs = CallPrograms(refuse, lambda inputs: inputs[0], "sizes")
    for _ in range(2):
        with pytest.raises(ValueError, match="no program for 7"):
            programs(7)
