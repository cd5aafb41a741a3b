"""Steps compiled into a store: the same programs as in one process, whatever happens to a compiler."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import odd_compiler
import pytest
import staged_steps
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.programs.failure_bundle import read_bundle
from deepinfer_neuron.compiler.programs.stored_programs import failed
from deepinfer_neuron.compiler.steps.stored_steps import StoredSteps, compile_into_store
from deepinfer_neuron.compiler.targets.command import CompilerCommand
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.runtime.devices.pjrt import host_device
from deepinfer_neuron.runtime.loader import load_runner
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.runtime.weights import BoundTensors
from interruptible import start_interruptible
from staged_steps import StagedStep, variant_of

REFUSAL = "XLA:CPU refused the module: no registers left"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture(autouse=True)
def compilers(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Undoes what a test does to the compiler."""
    monkeypatch.setattr(HostTarget, "command", HostTarget.command)
    return monkeypatch


def refuse_to_start(target: HostTarget) -> CompilerCommand:
    raise AssertionError("a compiler was started")


def compile_oddly(store: ArtifactStore, oddity: str) -> StoredSteps:
    odd_compiler.install(oddity, store.local.root.with_name("log"))
    return compile_into_store(StagedStep(), variant_of(2), store, 1)


def states(result: StoredSteps) -> dict[str, str]:
    return {program.region: program.state for program in result.programs}


def start_process(store: ArtifactStore, oddity: str) -> subprocess.Popen[str]:
    log = store.local.root.with_name("log")
    command = [sys.executable, staged_steps.__file__, str(store.local.root), str(log), oddity]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return start_interruptible(command, stdout=subprocess.PIPE, env=environment)


def left_behind(store: ArtifactStore) -> list[Path]:
    """Temporary files and locks in a store."""
    return [*store.local.root.glob(".tmp.*"), *store.local.layout.locks.glob("*")]


def test_the_programs_are_those_that_one_process_makes(store: ArtifactStore, compilers: pytest.MonkeyPatch):
    result = compile_into_store(StagedStep(), variant_of(1, 2), store, 2)
    assert [program.state for program in result.programs] == ["made"] * 6
    assert [report.batch_size for report in result.reports] == [2, 1]
    model = StagedStep()
    loaded = load_runner(
        store, variant_of(1, 2), {}, lambda plan: BoundTensors(model, plan.tensor_names), host_device()
    )
    expected = compile_decode(StagedStep(), [1, 2], mode="regions", store=False)
    for rows in (2, 1):
        x = torch.randn(rows, 4)
        assert torch.equal(loaded.runner(x=x), expected(x=x))

    compilers.setattr(HostTarget, "command", refuse_to_start)
    again = compile_into_store(StagedStep(), variant_of(1, 2), store, 2, assert_hit=True)
    assert [program.state for program in again.programs] == ["hit"] * 6
    assert again.plan == result.plan
    assert [report.stored for report in again.reports] == [3, 3]
    assert left_behind(store) == []


def test_a_refused_program_does_not_stop_the_others(store: ArtifactStore, compilers: pytest.MonkeyPatch):
    result = compile_oddly(store, "refuses")
    assert states(result) == {"sum": "made", "tanh": "failed", "end": "made"}
    (error,) = (program.error for program in failed(result.programs))
    assert error.startswith(f"{REFUSAL}\nat step.py:7\n  next: deepinfer-neuron bisect ")
    bundle = read_bundle(Path(error.split()[-1]))
    assert (bundle.graph.name, bundle.batch_size, bundle.signature) == ("tanh", 2, f"CompileError: {REFUSAL}")
    assert (result.plan, result.reports, store.entries("plan")) == (None, (), [])
    assert len(store.failures()) == 1
    with compilers.context() as within:
        within.setattr(HostTarget, "command", refuse_to_start)
        again = compile_into_store(StagedStep(), variant_of(2), store, 1)
    assert states(again) == {"sum": "hit", "tanh": "failed", "end": "hit"}
    assert "tried again in" in failed(again.programs)[0].error
    assert failed(again.programs)[0].error.endswith(error.splitlines()[-1])
    store.clear_failures()
    assert states(compile_oddly(store, "none")) == {"sum": "hit", "tanh": "made", "end": "hit"}


@pytest.mark.parametrize(
    ("oddity", "message", "remembered"),
    [("is killed", "SIGKILL.*memory.*try fewer --jobs", []), ("crashes", "SIGSEGV", ["tanh"])],
)
def test_a_compiler_that_dies_fails_its_program_only(
    store: ArtifactStore, oddity: str, message: str, remembered: list[str]
):
    result = compile_oddly(store, oddity)
    assert states(result) == {"sum": "made", "tanh": "failed", "end": "made"}
    assert re.search(message, failed(result.programs)[0].error)
    assert len(store.failures()) == len(remembered)
    bundles = [store.failure_files(failure.digest) for failure in store.failures()]
    assert [read_bundle(bundle).graph.name for bundle in bundles if bundle] == remembered


def test_a_required_program_that_is_missing_is_explained_and_none_is_compiled(
    store: ArtifactStore, compilers: pytest.MonkeyPatch
):
    compilers.setattr(HostTarget, "command", refuse_to_start)
    result = compile_into_store(StagedStep(), variant_of(2), store, 1, assert_hit=True)
    assert states(result) == {"sum": "failed", "tanh": "failed", "end": "failed"}
    assert all("the store in" in program.error and "has no other entry" in program.error for program in result.programs)


def test_the_next_run_goes_on_after_an_interrupt(store: ArtifactStore):
    process = start_process(store, "hangs")
    lines = iter(process.stdout.readline, "")
    seen = []
    for line in lines:
        seen.append(line.strip())
        if {"tanh compiling", "end made"} <= set(seen):
            break
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode not in (0, None)
    assert len(store.entries("program")) == 2
    assert store.verify() == []
    assert states(compile_oddly(store, "none")) == {"sum": "hit", "tanh": "made", "end": "hit"}
    assert left_behind(store) == []


def test_two_processes_at_once_compile_each_program_once(store: ArtifactStore):
    processes = [start_process(store, "none") for _ in range(2)]
    results = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    compiled = store.local.root.with_name("log").read_text().split()
    assert len(compiled) == len(set(compiled)) == 3
    for region in ("sum", "tanh", "end"):
        assert sorted(result[region] == "made" for result in results) == [False, True]
