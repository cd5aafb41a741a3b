"""PyTorch's own samples of its operators: a compiled call is right, or refused by name."""

from __future__ import annotations

from collections import Counter

import opinfo
import pytest
import torch
from torch._dynamo.utils import counters

EVERY = 25
"""Of so many operators, in the order of their names, the quick tests call one, with its first sample of float32."""

MOST_REFUSED = 600
"""Samples of the whole database that may be refused."""


def operator_names() -> list[str]:
    return sorted({operator.name for operator in opinfo.op_db})


def mistakes(verdicts: dict[str, str]) -> list[str]:
    accepted = ("right", "eager refuses it")
    return [text for text in verdicts.values() if text not in accepted and not text.startswith("refused: ")]


def refused(verdicts: dict[str, str]) -> Counter[str]:
    return Counter(sample.split(" ")[0] for sample, text in verdicts.items() if text.startswith("refused: "))


@pytest.fixture(autouse=True)
def quiet_dynamo():
    counters.clear()
    yield
    torch._dynamo.reset()


def test_one_operator_of_twenty_five():
    names = frozenset(operator_names()[::EVERY])
    firsts = [sample for sample in opinfo.samples(names, (torch.float32,)) if sample.number == 0]
    verdicts = {str(sample): opinfo.verdict(sample) for sample in firsts}
    assert not mistakes(verdicts), "\n".join(mistakes(verdicts))
    right = sum(text == "right" for text in verdicts.values())
    assert right >= 0.8 * len(verdicts) >= 16
    assert counters["deepinfer_neuron"]["programs_run"] >= 0.8 * right


@pytest.mark.slow
def test_every_operator():
    verdicts = {str(sample): opinfo.verdict(sample) for sample in opinfo.samples()}
    assert not mistakes(verdicts), "\n".join(mistakes(verdicts))
    assert refused(verdicts).total() <= MOST_REFUSED, refused(verdicts)
    assert counters["deepinfer_neuron"]["programs_run"] >= 0.8 * len(verdicts)


@pytest.mark.slow
def test_gradients_of_every_operator():
    verdicts = {str(sample): opinfo.backward_verdict(sample) for sample in opinfo.samples(dtypes=(torch.float32,))}
    assert not mistakes(verdicts), "\n".join(mistakes(verdicts))
