"""Random programs give eager's bits, or what rounds lies near them; results share memory as eager's do."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from random_programs import Program, verdict, write_program
from torch._dynamo.utils import counters

QUICK, ALL = 30, 10_000


@pytest.fixture(autouse=True)
def fresh_dynamo():
    counters.clear()
    yield
    torch._dynamo.reset()


def numerics_of(program: Program) -> str:
    return "exact" if program.number % 2 else "fast"


def count_right(numbers: range) -> Counter[str]:
    """How the verdicts begin; fails for the first wrong or crashed program, with its source."""
    kinds: Counter[str] = Counter()
    for number in numbers:
        program = write_program(number)
        text = verdict(program, numerics_of(program))
        assert text == "right" or text.startswith("refused"), f"program {number}: {text}"
        kinds[text.partition(":")[0]] += 1
    return kinds


def test_thirty_programs():
    kinds = count_right(range(QUICK))
    assert kinds["right"] >= 0.9 * QUICK
    assert counters["deepinfer_neuron"]["programs_run"] >= kinds["right"]


@pytest.mark.slow
def test_ten_thousand_programs():
    kinds = count_right(range(ALL))
    assert kinds["right"] >= 0.95 * ALL


def test_the_same_number_writes_the_same_program():
    assert write_program(7) == write_program(7) != write_program(8)


def test_a_wrong_result_is_seen(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: lambda *inputs: _doubled(function(*inputs)))
    assert any(verdict(write_program(number), "fast").startswith("wrong") for number in range(5))


def _doubled(results):
    return tuple(one * 2 + 1 if one.dtype is not torch.bool else ~one for one in results)
