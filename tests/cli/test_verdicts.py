"""Every command ends with one line: whether that is good, what was found, and what to do next.

The verdict of work that takes minutes is asked with its result at hand; the commands that do that work for real are
in the tests of the rooms that do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from deepinfer_neuron.benchmarks.decode_step import StepTimes
from deepinfer_neuron.benchmarks.first_calls import FirstCallTime
from deepinfer_neuron.benchmarks.graph_modes import ModeTimes
from deepinfer_neuron.benchmarks.layer_count import LayerCountCost
from deepinfer_neuron.benchmarks.loading import StartCost
from deepinfer_neuron.benchmarks.lowering_speed import LayersTime, LoweringTime
from deepinfer_neuron.benchmarks.pool_size import PoolTime
from deepinfer_neuron.benchmarks.view_stores import RootTime
from deepinfer_neuron.bisection.run import NothingWrong
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.graphs.graph_file import SavedGraph
from deepinfer_neuron.compiler.programs.stored_programs import StoredProgram
from deepinfer_neuron.doctor.finding import Finding as DoctorFinding
from deepinfer_neuron.doctor.report import DoctorReport
from deepinfer_neuron.engine.ahead_of_time import CompileResult
from deepinfer_neuron.model.accuracy.compare import Comparison, LogitRow
from deepinfer_neuron.model.accuracy.metrics import LogitError
from deepinfer_neuron.preflight.histogram import Histogram
from deepinfer_neuron.preflight.rule import Finding
from deepinfer_neuron.preflight.run import PreflightReport
from deepinfer_neuron.preflight.step import StepCheck
from deepinfer_neuron.runtime.stats import CompileReport
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.verification.demo import CompiledResult, DemoReport, PromptResult
from deepinfer_neuron.verification.golden_run import RunOptions, RunReport
from deepinfer_neuron.verification.pass_comparison import PassComparison
from deepinfer_neuron.verification.run import BatchVerification, VerifyReport
from neffs import small_neff
from small_graphs import graph_of
from typer.testing import CliRunner
from vendor_caches import make_module
from verdicts import verdict_of

PACKAGE = "deepinfer_neuron"


@dataclass(frozen=True)
class Case:
    """A command line, where the work is done, what it returns then, and the verdict of that."""

    words: str
    work: str
    result: Any
    verdict: str
    code: int


def demo_report(*margins: float) -> DemoReport:
    prompt = PromptResult("p", 11, 9, 9, 0.0, 1.0, 0.0, 0.1, 0.9, [])
    compiled = CompiledResult(1, "whole", 1, 1, 55 - len(margins), 55, *[0.0] * 5, 700, *[0.1] * 3, list(margins))
    return DemoReport([prompt], [compiled], [], 0.5)


def comparison(agrees: bool) -> Comparison:
    row = LogitRow("p/logits", LogitError(*[0.0] * len(LogitError.__dataclass_fields__)), 0.1, agrees, agrees)
    return Comparison([row], [], [], [], [])


def verified(mismatched: int) -> VerifyReport:
    passed = PassComparison(**dict.fromkeys(PassComparison.__dataclass_fields__, 1) | {"mismatched": mismatched})
    return VerifyReport("exact", [BatchVerification(2, 9, [passed], [], [])], not mismatched)


def stored(state: Any) -> CompileResult:
    return CompileResult("/store", None, (StoredProgram("embed", 2, "ab" * 32, state, error="refused"),), [])


def checked(*findings: Finding) -> PreflightReport:
    return PreflightReport("trn2", "whole", not findings, [StepCheck(2, 1, {}, Histogram((), {}, {}), findings, 0.1)])


def compiled_layers(layers: int, programs: int) -> LayerCountCost:
    numbers: dict[str, Any] = dict.fromkeys(CompileReport.__dataclass_fields__, 1.0)
    report = CompileReport(**numbers | {"nodes": layers * 10, "programs": programs, "mode": "regions"})
    return LayerCountCost(layers, report, 1.0, 1.5)


def start(cold_s: float | None) -> StartCost:
    return StartCost(8, (1,), *[0.5] * 7, 3, 10, 10, cold_s)


REFUSED = Finding("EVRF029", "reported", "stablehlo.sort", "model/moe.py:31", "trn2 has no sort", "count instead", 2)
LACKING = DoctorFinding("jaxlib", "missing", next_step="pip install jaxlib", needed=True)
SIGMOID = SavedGraph(graph_of(torch.sigmoid, [torch.empty(4)]), {}, "host", name="end")
RUN = RunReport("eager", RunOptions(), {"p": [1]}, comparison(True))
OTHERS = "4 others lie within its noise (top-two margin below 0.5)"

STUBBED = [
    Case(
        "demo --dir DIR",
        "verification.demo.run_demo",
        demo_report(0.1, 0.2, 0.3, 0.5),
        f"choices equal the reference; the {OTHERS}",
        0,
    ),
    Case("demo --dir DIR", "verification.demo.run_demo", demo_report(), "64 of 64 choices equal the reference", 0),
    Case(
        "demo --dir DIR",
        "verification.demo.run_demo",
        demo_report(0.1, 0.6),
        "1 of the 2 others lie outside its noise",
        1,
    ),
    Case("run DIR --mode eager", "verification.golden_run.run_golden", RUN, "1 of 1 prompts agree", 0),
    Case("compare A B", "model.accuracy.compare.compare_files", comparison(True), "logits of 1 of 1 prompts agree", 0),
    Case("compare A B", "model.accuracy.compare.compare_files", comparison(False), "logits of 0 of 1 prompts agree", 1),
    Case("verify DIR", "verification.run.run_verify", verified(0), "batch sizes 2: 1 of 1 passes change no bit", 0),
    Case("verify DIR", "verification.run.run_verify", verified(3), "batch sizes 2: 0 of 1 passes change no bit", 1),
    Case(
        "compile DIR --store STORE", "engine.ahead_of_time.run_compile", stored("made"), "is in /store, 1 programs", 0
    ),
    Case(
        "compile DIR --store STORE", "engine.ahead_of_time.run_compile", stored("failed"), "1 of the 1 programs of", 1
    ),
    Case("preflight DIR", "preflight.run.run_preflight", checked(), "1 batch sizes checked for trn2, no findings", 0),
    Case("preflight DIR", "preflight.run.run_preflight", checked(REFUSED), "checked for trn2, 1 findings", 1),
    Case(
        "bisect FILE --accuracy", "bisection.run.run_bisect", NothingWrong("x", "host"), "nothing computes anything", 0
    ),
    Case("doctor", "doctor.report.run_doctor", DoctorReport([]), "everything the host needs is there", 0),
    Case("doctor", "doctor.report.run_doctor", DoctorReport([LACKING]), "the host lacks something", 1),
    Case(
        "dump DIR --out GRAPH.mlir", "engine.dump.trace_region", SIGMOID, "end of batch 1 for host, 1 nodes, is in", 0
    ),
    Case(
        "bench steps --dir DIR",
        "benchmarks.decode_step.time_decode_steps",
        [StepTimes(1, 9.0, 3.0, 0.33, 0.1, 1.0)],
        "at most 0.33 of eager's time",
        0,
    ),
    Case(
        "bench modes --dir DIR",
        "benchmarks.graph_modes.time_graph_modes",
        [ModeTimes(1, 9, 5, 3.0, 2.0, 1.5)],
        "1.50 to 1.50",
        0,
    ),
    Case(
        "bench pools 1,16 --dir DIR",
        "benchmarks.pool_size.time_pool_sizes",
        [PoolTime(1, 9, 1.0, 1.0), PoolTime(16, 144, 1.0, 1.1)],
        "16 times as large",
        0,
    ),
    Case(
        "bench roots 64,256",
        "benchmarks.view_stores.time_root_sizes",
        [RootTime(64, 1.0, 1.0), RootTime(256, 1.0, 1.2)],
        "4 times as large",
        0,
    ),
    Case(
        "bench layers",
        "benchmarks.layer_count.time_layer_counts",
        [compiled_layers(8, 6), compiled_layers(16, 6)],
        "2.0 times the layers need 6",
        0,
    ),
    Case(
        "bench lowering",
        "benchmarks.lowering_speed.time_lowering_of_layers",
        [LayersTime(n, LoweringTime(n * 10, 5.0, 5.0)) for n in (8, 16)],
        "at most 125 ms per 1000",
        0,
    ),
    Case(
        "bench start --dir DIR", "benchmarks.loading.time_start", start(9.0), "1.00 s to a token, the first 9.00 s", 0
    ),
    Case(
        "bench first-calls",
        "benchmarks.first_calls.time_first_calls",
        [FirstCallTime("llama", 3.0, 6.0, 0.5)],
        "0.50 to 0.50 of Inductor's time",
        0,
    ),
    Case("bench loading", "benchmarks.loading.time_growth", [start(None)], "of 8 layers and 3 programs", 0),
]

REAL = [
    "tiny make NEW --size nano", "tiny check DIR", "golden DIR --prompts INPUTS --out OUT",
    "cache ls", "cache explain", "cache verify", "cache export OUT", "cache import ARCHIVE", "cache clear",
    "cache vendor ls VENDOR", "cache vendor import VENDOR --store NEW",
]  # fmt: skip


def commands() -> set[str]:
    names: set[str] = set()
    waiting = [("", typer.main.get_command(main))]
    while waiting:
        name, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            names.add(name.strip())
        else:
            waiting.extend((f"{name} {one}", inner[one]) for one in inner)
    return names


def test_every_command_is_asked():
    lines = [case.words for case in STUBBED] + REAL
    assert [
        name for name in commands() if not any(line.split()[: len(name.split())] == name.split() for line in lines)
    ] == []


@pytest.fixture(scope="module")
def places(nano_a: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verdicts")
    ArtifactStore(folder / "STORE").put(ArtifactKey("plan", {}), {"plan": b"1"})
    ArtifactStore(folder / "STORE").export(folder / "ARCHIVE")
    make_module(folder / "VENDOR", {"model.neff": small_neff(), "model.done": b"", "model.hlo_module.pb": b"module"})
    (folder / "DIR").symlink_to(nano_a)
    (folder / "INPUTS").write_text('{"prompts": {"one": {"ids": [[5, 6]], "h_pos": [1], "drafts": []}}}')
    return folder


def typed(words: str, folder: Path, new: Path) -> list[str]:
    names = {"DIR", "STORE", "ARCHIVE", "VENDOR", "INPUTS", "FILE", "A", "B"}
    fresh = {"NEW", "OUT", "GRAPH.mlir"}
    return [str(folder / one) if one in names else str(new / one) if one in fresh else one for one in words.split()]


@pytest.mark.parametrize("case", STUBBED, ids=lambda case: f"{case.words.split(' -')[0]}, {case.code}")
def test_a_verdict_says_whether_that_is_good(case: Case, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(f"{PACKAGE}.{case.work}", lambda *args, **keywords: case.result)
    result = CliRunner().invoke(main, typed(case.words, places, tmp_path))
    assert result.exit_code == case.code, result.output
    good, found, _ = verdict_of(result.stdout)
    assert good == ("not good" if case.code else "good")
    assert case.verdict in found


@pytest.mark.parametrize("words", REAL)
def test_a_command_ends_with_its_verdict(words: str, places: Path, tmp_path: Path):
    arguments = typed(words, places, tmp_path)
    if words.startswith("cache") and "vendor" not in words:
        arguments += ["--store", str(tmp_path / "store" if "import" in words else places / "STORE")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert verdict_of(result.stdout)[0] == "good"


def test_a_run_that_differs_is_an_error_only_if_that_was_asked(places: Path, monkeypatch: pytest.MonkeyPatch):
    report = RunReport("eager", RunOptions(), {"p": [1]}, comparison(False))
    monkeypatch.setattr(f"{PACKAGE}.verification.golden_run.run_golden", lambda *args: report)
    for flags, code in ((), 0), (("--compare",), 1):
        result = CliRunner().invoke(main, ["run", str(places / "DIR"), "--mode", "eager", *flags])
        assert result.exit_code == code
        assert verdict_of(result.stdout)[0] == "not good"


def test_an_interrupted_command_exits_with_130(places: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{PACKAGE}.preflight.run.run_preflight", interrupt)
    result = CliRunner().invoke(main, ["preflight", str(places / "DIR")])
    assert (result.exit_code, result.stderr) == (130, "interrupted: nothing is left half done\n")
