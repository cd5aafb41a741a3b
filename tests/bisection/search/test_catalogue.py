"""Each planted failure of the whole decode step is cut down to the planted operators, and nothing is left over."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from bisect_catalogue import LARGE, Entry, catalogue
from catalogue_runs import bisect_entry, kept_nodes
from deepinfer_neuron.bisection.probes.probe import CompileProbe
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.bisection.search.result import BisectResult
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.settings import Settings
from miscompile_probe import MiscompileProbe
from neuron_compilers import install_compiler
from planted_compiler import PlantedCompiler

LIMITS = ProcessLimits(seconds=120, memory_bytes=1 << 30)
HANG_S = 10


def name_of(entry: Entry) -> str:
    return entry.name.replace(" ", "-")


def named(name: str, size: str) -> Entry:
    (entry,) = (one for one in catalogue(size) if one.name == name)
    return entry


def check(entry: Entry, size: str, result: BisectResult) -> None:
    """The planted operators were found and nothing more, each of them is needed, and the failure is the planted one."""
    kept = kept_nodes(size, result)
    assert entry.unexplained(kept) == []
    assert (result.failure.signature.outcome, result.failure.signature.code) == (
        entry.signature.outcome,
        entry.signature.code,
    )
    assert result.evidence.is_minimal and result.complete
    assert {other.signature.code for other in result.evidence.others} == set(entry.also_seen)
    assert result.failure.first.failed > 0 and result.failure.last.failed > 0
    if entry.rate == 1:
        assert (result.failure.first.failed, result.failure.last.failed) == (
            result.failure.first.runs,
            result.failure.last.runs,
        )
    if entry.count is None:
        assert len(kept) < len(result.reduction.items) / 4
        assert len(ModuleSubject(result.reduction.minimal.module).items) >= LARGE
    else:
        assert (len(kept), result.reduction.minimal.size) == (entry.count, entry.count)
        assert probes_to_find(result) <= most_probes(entry, result)


def probes_to_find(result: BisectResult) -> int:
    """Runs of the compiler until the operators were known, with those that check that each is needed."""
    names = [stage.name for stage in result.cost.stages]
    end = names.index("operations") + 1
    return sum(stage.probes for stage in result.cost.stages[:end])


def most_probes(entry: Entry, result: BisectResult) -> float:
    """What the search promises: a binary search for each operator in regions, and in operations, and each left out.

    A failure of a share of the runs takes several of them for each answer.
    """
    assert entry.count is not None
    answers = entry.count * (2 * math.ceil(math.log2(len(result.reduction.items))) + 4) + 4
    return answers * (1 if entry.rate == 1 else result.failure.runs)


QUICK = (
    "one operation",
    "a pair at both ends",
    "one shape of a kernel",
    "an operation inside a kernel",
    "an operation of a large program",
    "a crash where two follow each other",
    "three runs in ten",
    "another failure nearby",
)
"""One of each way to search; the others differ in how the compiler ends, or take longer to show the same."""


ENTRIES = [
    pytest.param(one, id=name_of(one), marks=[] if one.name in QUICK else pytest.mark.slow) for one in catalogue("nano")
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_planted_failure_is_found(entry: Entry, tmp_path: Path):
    check(entry, "nano", bisect_entry(entry, "nano", tmp_path, PlantedCompiler(entry.plants, tmp_path)))


def by_processes(entry: Entry, size: str, directory: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> BisectResult:
    """The bisection with the stand-in started for each probe."""
    asked = Settings(compiler=install_compiler(directory / "bin", plants=entry.plants))
    for module in ("neuronx", "process"):
        monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: asked)
    compiler = probe_compiler("trn2", None)
    limits = replace(LIMITS, seconds=HANG_S) if entry.signature.outcome == "timeout" else LIMITS
    return bisect_entry(entry, size, directory, CompileProbe(compiler, limits), compiler, jobs)


@pytest.mark.slow
def test_processes_end_as_they_are_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entry = named("a crash where two follow each other", "nano")
    result = by_processes(entry, "nano", tmp_path, monkeypatch, jobs=1)
    check(entry, "nano", result)
    (tmp_path / "again").mkdir()
    again = bisect_entry(entry, "nano", tmp_path / "again", PlantedCompiler(entry.plants, tmp_path))
    found = result.reduction
    assert (again.reduction.kept, again.reduction.minimal, again.cost.probes) == (
        found.kept,
        found.minimal,
        result.cost.probes,
    )


@pytest.mark.slow
@pytest.mark.parametrize("entry", [one for one in catalogue("nano") if one.is_miscompile], ids=name_of)
def test_what_computes_something_else_is_found_by_running_it(entry: Entry, tmp_path: Path):
    check(
        entry, "nano", bisect_entry(entry, "nano", tmp_path, MiscompileProbe(PlantedCompiler(entry.plants, tmp_path)))
    )


@pytest.mark.slow
@pytest.mark.parametrize("entry", catalogue("tiny"), ids=name_of)
def test_a_planted_failure_of_the_larger_model_is_found(entry: Entry, tmp_path: Path):
    check(entry, "tiny", bisect_entry(entry, "tiny", tmp_path, PlantedCompiler(entry.plants, tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("entry", [one for one in catalogue("tiny") if not one.is_miscompile], ids=name_of)
def test_two_processes_at_once_find_what_one_after_the_other_do(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    result = by_processes(entry, "tiny", tmp_path, monkeypatch, jobs=2)
    check(entry, "tiny", result)
    (tmp_path / "serial").mkdir()
    serial = bisect_entry(entry, "tiny", tmp_path / "serial", PlantedCompiler(entry.plants, tmp_path / "serial"))
    assert (result.reduction.kept, result.reduction.minimal) == (serial.reduction.kept, serial.reduction.minimal)
