"""PyTorch's minifier behind the questions of a bisection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from deepinfer_neuron.benchmarks.minifier import count_operators, run_minifier
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from host_programs import trace

EXPONENTIALS = 10
FAST = LoweringOptions()


def step(x: torch.Tensor) -> torch.Tensor:
    x = torch.sin(x)
    for _ in range(EXPONENTIALS):
        x = torch.exp(x)
    return torch.tanh(x)


def operators(candidate: Candidate) -> Counter[str]:
    assert candidate.graph is not None
    return Counter(node.target.__name__ for node in candidate.graph.graph.nodes if node.op == "call_function")


def has(*names: str) -> Callable[[Candidate], bool]:
    return lambda candidate: all(operators(candidate)[name] for name in names)


def test_one_operator_in_the_middle_is_found():
    run = run_minifier(trace(step, torch.ones(4)), FAST, has("exp.default"), 300)
    assert (run.operators, run.left, run.ended) == (EXPONENTIALS + 2, 1, "finished")
    assert run.smallest is not None and count_operators(run.smallest) == 1
    assert 0 < run.probes < 300


def test_of_a_pair_that_does_not_touch_the_path_between_is_left():
    run = run_minifier(trace(step, torch.ones(4)), FAST, has("sin.default", "tanh.default"), 300)
    assert (run.left, run.ended) == (EXPONENTIALS + 2, "finished")


def test_it_is_stopped_and_the_best_so_far_is_told():
    run = run_minifier(trace(step, torch.ones(4)), FAST, lambda candidate: operators(candidate)["exp.default"] >= 4, 5)
    assert (run.probes, run.ended) == (5, "stopped after 5 probes")
    assert 4 <= run.left < EXPONENTIALS + 2


def test_a_graph_that_does_not_fail_at_once_is_refused_by_it():
    run = run_minifier(trace(step, torch.ones(4)), FAST, lambda candidate: False, 300)
    assert (run.left, run.smallest, run.probes) == (EXPONENTIALS + 2, None, 1)
    assert run.ended == "RuntimeError: Input graph did not fail the tester"


def test_graphs_that_cannot_be_lowered_cost_no_probe():
    def split(x: torch.Tensor) -> torch.Tensor:
        largest, places = torch.max(torch.sin(x), 0)
        return torch.tanh(largest) + places

    run = run_minifier(trace(split, torch.ones(4, 4)), FAST, has("max.dim"), 300)
    assert run.left == 1
    assert run.not_lowered > 0
