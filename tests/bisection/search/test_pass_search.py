"""Which pass introduces a failure, for compilers that fail on what one of them makes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from bisect_stand_ins import CRASH, ModuleProbe
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe_runner import ProbeRunner
from deepinfer_neuron.bisection.search.interestingness import Interestingness
from deepinfer_neuron.bisection.search.oracle import Oracle
from deepinfer_neuron.bisection.search.pass_search import introducing_pass
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.passes.pipeline import PASSES
from torch import Tensor, nn


class Cache(nn.Module):
    """Writes rows into a cache of bfloat16, which one pass carries as integers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(16, 4, dtype=torch.bfloat16))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        self.rows[place] = torch.tanh(x)
        return self.rows[place + 1]


@cache
def candidate_at(limit: int) -> Candidate:
    graph = capture(Cache(), {"x": torch.zeros(2, 4, dtype=torch.bfloat16), "place": torch.zeros(2, dtype=torch.int64)})
    context = pass_captured(graph, HostTarget(), limit=limit).context
    subject = GraphSubject(graph.module, context.aliases, HostTarget().lowering_options("fast"))
    return subject.candidate(range(len(subject.items)))


def search(directory: Path, word: str, limit: int | None = None, at=candidate_at) -> str:
    probe = ModuleProbe(lambda text: CRASH if word in text else None)
    with Memo(directory / "log.jsonl", "one") as memo, ProbeRunner(probe, memo) as runner:
        return introducing_pass(at, Oracle(runner, Interestingness(CRASH), lambda progress: None, 1), limit)


def test_the_pass_that_makes_what_fails(tmp_path: Path):
    found = search(tmp_path, "xi16>")
    assert "carry_mutated_bfloat16_as_int16: the program fails with it and not without it" in found


def test_the_limits_that_it_names_tell_the_two_programs_apart(tmp_path: Path):
    found = search(tmp_path, "xi16>")
    failing, passing = (int(text) for text in found.partition("LIMIT=")[2].rstrip(")").split(" and "))
    assert failing == passing + 1
    texts = ModuleProbe(lambda text: None)
    for limit in (failing, passing):
        texts(candidate_at(limit), None)
    assert ["xi16>" in text for text in texts.asked] == [True, False]


def test_a_failure_that_does_not_come_again_has_no_pass(tmp_path: Path):
    assert search(tmp_path, "stablehlo.sine").startswith("not known")


def test_what_no_pass_introduces(tmp_path: Path):
    assert search(tmp_path, "stablehlo.tanh").startswith("no pass")


def test_the_program_may_have_had_fewer_passes(tmp_path: Path):
    asked: list[int] = []

    def at(limit: int) -> Candidate:
        asked.append(limit)
        return candidate_at(limit)

    found = search(tmp_path, "xi16>", 7, at)
    assert "carry_mutated_bfloat16_as_int16" in found
    assert max(asked) == 7


def test_a_program_that_cannot_be_lowered_without_a_pass_does_not_fail(tmp_path: Path):
    def at(limit: int) -> Candidate | None:
        return candidate_at(limit) if limit else None

    assert "pass" in search(tmp_path, "stablehlo.tanh", at=at)
    assert not search(tmp_path, "stablehlo.tanh", at=at).startswith("no pass")


@pytest.mark.parametrize("limit", [0, 3])
def test_the_limit_of_a_capture_is_kept(limit: int):
    graph = capture(Cache(), {"x": torch.zeros(2, 4, dtype=torch.bfloat16), "place": torch.zeros(2, dtype=torch.int64)})
    records = pass_captured(graph, HostTarget(), limit=limit).passes
    assert len(records) == sum(entry.required for entry in PASSES) + limit
