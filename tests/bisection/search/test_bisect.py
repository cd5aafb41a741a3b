"""A whole bisection of small graphs, with stand-ins for compilers that look at modules as text."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bisect_stand_ins import CRASH, OTHER, ModuleProbe
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.bisection.probes.probe_runner import Budget, ProbeRunner
from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.search.bisect import bisect
from deepinfer_neuron.bisection.search.options import SearchOptions
from deepinfer_neuron.bisection.search.progress import SearchProgress
from deepinfer_neuron.bisection.search.result import BisectResult
from deepinfer_neuron.bisection.subjects.graph_python import graph_python
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject
from deepinfer_neuron.bisection.subjects.module_reader import read_module
from deepinfer_neuron.bisection.subjects.module_rewrites import deduplicated
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.bisection.subjects.subject import Candidate, Subject
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.errors import BisectError
from deepinfer_neuron.model.kernels.normalization import rms_norm
from small_graphs import graph_of, operators

Answer = Callable[[str], Signature | None]
OPTIONS = LoweringOptions()
RETURN = "return %2, %5 : tensor<4xf32>, tensor<4xf32>"


def attention(q: torch.Tensor, k: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    heads = rms_norm(q.view(4, 16, 128), weight, 1e-6)
    scores = torch.bmm(heads, k.view(4, 128, 32)) * 0.125
    probabilities = scores.softmax(-1)
    return probabilities.reshape(4, 512), torch.sigmoid(scores.sum(-1)) + torch.tanh(scores.amax(-1))


def attention_subject() -> GraphSubject:
    graph = graph_of(attention, [torch.empty(4, 2048), torch.empty(4, 4096), torch.empty(128)])
    return GraphSubject(graph, {}, OPTIONS)


def run(
    directory: Path,
    subject: Subject,
    answer: Answer,
    options: SearchOptions | None = None,
    jobs: int = 1,
    budget: Budget | None = None,
) -> tuple[BisectResult, ModuleProbe]:
    probe = ModuleProbe(answer)
    compiler = probe_compiler(None, "true {input}")
    with Memo(directory / "log.jsonl", "one") as memo, ProbeRunner(probe, memo, jobs, budget) as runner:
        return bisect("attention", subject, compiler, runner, options or SearchOptions()), probe


def crash_with(*words: str) -> Answer:
    return lambda text: CRASH if all(re.search(word, text) for word in words) else None


def test_one_operation_is_found_and_made_simple(tmp_path: Path):
    result, probe = run(tmp_path, attention_subject(), crash_with(r"stablehlo\.tanh"))
    assert [item.text.split(" = ")[1].split("(")[0] for item in result.reduction.kept_items] == ["aten.tanh.default"]
    assert operators(result.reduction.minimal.graph) == ["aten.tanh.default"]
    assert "tensor<1x1xf32>" in ModuleSubject(result.reduction.minimal.module).items[0].text
    assert (str(result.failure.first), str(result.failure.last)) == ("2 of 2", "2 of 2")
    assert result.evidence.is_minimal
    assert result.complete
    assert result.cost.probes == len(probe.asked)
    assert result.failure.signature == CRASH
    assert result.reduction.smallest_module.size == 1


def test_a_pair_far_apart_is_found_together(tmp_path: Path):
    subject = attention_subject()
    result, _ = run(tmp_path, subject, crash_with(r"stablehlo\.dot_general", r"stablehlo\.tanh"))
    assert [re.search(r"aten\.(\w+)", item.text)[1] for item in result.reduction.kept_items] == ["bmm", "tanh"]
    assert result.evidence.is_minimal
    assert len(result.evidence.removals) == 2
    assert result.evidence.good is not None
    assert result.evidence.good.size == 1


def test_the_search_goes_on_inside_a_kernel(tmp_path: Path):
    result, _ = run(tmp_path, attention_subject(), crash_with(r"stablehlo\.rsqrt"))
    (kept,) = result.reduction.kept_items
    assert "rms_norm" in kept.text
    assert operators(result.reduction.minimal.graph) == ["aten.rsqrt.default"]
    assert any("kernels written out" in line for line in result.reduction.simplifications)


def test_a_kernel_that_fails_only_as_one_stays_one(tmp_path: Path):
    result, _ = run(tmp_path, attention_subject(), crash_with(r"stablehlo\.composite.*rms_norm"))
    assert [one.rpartition(".")[0] for one in operators(result.reduction.minimal.graph)] == ["deepinfer.rms_norm"]


def test_a_module_is_cut_without_its_graph(tmp_path: Path):
    graph = graph_of(attention, [torch.empty(4, 2048), torch.empty(4, 4096), torch.empty(128)])
    subject = ModuleSubject(lower_graph(graph, OPTIONS).bytecode)
    result, _ = run(tmp_path, subject, crash_with(r"stablehlo\.rsqrt", r"stablehlo\.tanh"))
    names = {word for item in result.reduction.kept_items for word in re.findall(r"stablehlo\.\w+", item.text)}
    assert names == {"stablehlo.composite", "stablehlo.tanh"}
    inner = {
        word for item in ModuleSubject(result.reduction.smallest_module.module).items for word in item.text.split()
    }
    assert {word for word in inner if word.startswith("stablehlo.")} == {"stablehlo.rsqrt", "stablehlo.tanh"}


def test_operations_that_a_compiler_takes_for_one_become_one(tmp_path: Path):
    lines = ("%0 = stablehlo.sine %x", "%1 = stablehlo.exponential %0", "%2 = stablehlo.tanh %1")
    again = ("%3 = stablehlo.sine %x", "%4 = stablehlo.exponential %3", "%5 = stablehlo.cosine %4")
    body = "\n".join(f"{line} : tensor<4xf32>" for line in [*lines, *again])
    text = f"func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{\n{body}\n{RETURN}\n}}"

    def answer(text: str) -> Signature | None:
        as_compiled = deduplicated(read_module(text.encode()))
        read = re.findall(r"stablehlo\.(?:tanh|cosine) (%\w+)", _text(as_compiled))
        return CRASH if len(read) == 2 and read[0] == read[1] else None

    (tmp_path / "module.mlir").write_text(text)
    result, _ = run(tmp_path, ModuleSubject(tmp_path / "module.mlir"), answer)
    assert sum(not item.is_result for item in result.reduction.kept_items) == 6
    assert sorted(re.findall(r"stablehlo\.\w+", _text(result.reduction.minimal.module))) == [
        "stablehlo.cosine",
        "stablehlo.tanh",
    ]
    assert result.reduction.simplifications == ["equal operations as one: 6 operations became 4"]
    assert result.evidence.is_minimal


def test_a_compiler_that_reads_graphs_is_asked_about_graphs_alone(tmp_path: Path):
    def probe(candidate: Candidate, cancel: threading.Event) -> Verdict:
        failed = "aten.tanh" in graph_python(candidate.graph)
        return Verdict(CRASH if failed else None, 0.0, "")

    compiler = probe_compiler(None, "true {input.py}")
    with Memo(tmp_path / "log.jsonl", "one") as memo, ProbeRunner(probe, memo) as runner:
        result = bisect("attention", attention_subject(), compiler, runner, SearchOptions())
    assert operators(result.reduction.minimal.graph) == ["aten.tanh.default"]
    assert result.reduction.smallest_module == result.reduction.minimal
    assert result.complete


def test_progress_begins_with_the_whole_program_and_counts_a_kernels_operations(tmp_path: Path):
    seen: list[SearchProgress] = []
    answer = crash_with(r"stablehlo\.rsqrt")
    with Memo(tmp_path / "log.jsonl", "one") as memo, ProbeRunner(ModuleProbe(answer), memo) as runner:
        bisect("", attention_subject(), probe_compiler(None, "true {input}"), runner, SearchOptions(), seen.append)
    assert (seen[0].stage, seen[0].size, seen[0].probes) == ("whole program", seen[0].total, 0)
    before = [one.stage for one in seen].index("inside kernels")
    assert seen[before].best == 1
    inside = [one.best for one in seen[before:]]
    assert max(inside) > 1
    assert inside[-1] == 1


def test_what_else_is_met_is_reduced_too(tmp_path: Path):
    def answer(text: str) -> Signature | None:
        if "stablehlo.tanh" in text:
            return CRASH
        return OTHER if "stablehlo.logistic" in text else None

    result, _ = run(tmp_path, attention_subject(), answer)
    assert result.failure.signature == CRASH
    for other in result.evidence.others:
        assert other.signature == OTHER
        assert operators(other.candidate.graph) == ["aten.sigmoid.default"]


def test_a_failure_that_does_not_come_is_refused(tmp_path: Path):
    with pytest.raises(BisectError, match=r"0 of 2 runs.*it compiled"):
        run(tmp_path, attention_subject(), lambda text: None)


def test_a_compiler_that_fails_on_everything_is_refused(tmp_path: Path):
    with pytest.raises(BisectError, match=r"returns its input fails in the same way"):
        run(tmp_path, attention_subject(), lambda text: CRASH)


def test_a_failure_of_some_runs_is_looked_for_in_several(tmp_path: Path):
    runs: dict[str, int] = {}

    def flaky(text: str) -> Signature | None:
        if "stablehlo.tanh" not in text:
            return None
        runs[text] = runs.get(text, 0) + 1
        return CRASH if runs[text] % 3 == 1 else None

    result, _ = run(tmp_path, attention_subject(), flaky)
    assert operators(result.reduction.minimal.graph) == ["aten.tanh.default"]
    assert result.failure.first.failed < result.failure.first.runs
    assert result.failure.runs > 5
    assert 0 < result.failure.last.failed < result.failure.last.runs


def test_a_spent_budget_gives_the_best_so_far_and_the_same_command_goes_on(tmp_path: Path):
    subject = attention_subject()
    answer = crash_with(r"stablehlo\.dot_general", r"stablehlo\.tanh")
    first, _ = run(tmp_path, subject, answer, budget=Budget(probes=6))
    assert not first.complete
    assert answer(_text(first.reduction.minimal.module)) == CRASH
    second, again = run(tmp_path, subject, answer)
    assert second.complete
    straight, probe = run(tmp_path / "straight", subject, answer)
    assert second.reduction.minimal.module == straight.reduction.minimal.module
    assert len(again.asked) == len(probe.asked) - first.cost.probes


def test_a_budget_that_ends_within_a_stage_keeps_what_failed_there(tmp_path: Path):
    lines = [f"%{n} = stablehlo.{'tanh' if n == 5 else 'sine'} %{n - 1 if n else 'x'}" for n in range(64)]
    body = "\n".join(f"{line} : tensor<4xf32>" for line in lines)
    text = f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\nreturn %63 : tensor<4xf32>\n}}"
    (tmp_path / "module.mlir").write_text(text)
    subject = ModuleSubject(tmp_path / "module.mlir")
    result, _ = run(tmp_path, subject, crash_with(r"stablehlo\.tanh"), budget=Budget(probes=6))
    assert not result.complete
    assert not result.interrupted
    assert result.reduction.minimal.size == min(point.best for point in result.cost.history) < 64
    assert "stablehlo.tanh" in _text(result.reduction.minimal.module)
    assert [item.name for item in result.reduction.kept_items][:1] == ["%0"]
    assert (result.failure.last.failed, result.failure.last.runs) == (1, 1)


def test_jobs_change_nothing(tmp_path: Path):
    answer = crash_with(r"stablehlo\.dot_general", r"stablehlo\.tanh")
    one, _ = run(tmp_path / "one", attention_subject(), answer)
    two, _ = run(tmp_path / "two", attention_subject(), answer, jobs=2)
    assert two.reduction == one.reduction
    assert two.evidence == one.evidence


def _text(module: bytes) -> str:
    return "\n".join(item.text for item in ModuleSubject(module).items)
