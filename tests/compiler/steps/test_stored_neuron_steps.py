"""``compile DIR --target trn2 --jobs 2`` as a person types it, with the stand-in for neuronx-cc."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deepinfer_neuron.runtime.neff.reader import read_neff
from deepinfer_neuron.runtime.store.programs import PROGRAM, find_program
from deepinfer_neuron.runtime.store.store import ArtifactStore
from interruptible import start_interruptible
from neuron_compilers import compiler_processes, install_compiler

IN_EXPERTS = {"all": [{"opcode": "log_plus_one"}]}
"""What only one of the step's programs has, that of the experts' stage, as a plant of the stand-in."""


@dataclass(frozen=True)
class Machine:
    """A checkpoint, a store, and a compiler that may fail in the program of the experts."""

    checkpoint: Path
    directory: Path
    store: ArtifactStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", ArtifactStore(self.directory / "store"))
        self.work.mkdir()

    @property
    def work(self) -> Path:
        """The directory that compilations get their own directories in."""
        return self.directory / "work"

    def start(self, fault: str = "", *arguments: str) -> subprocess.Popen[str]:
        """``compile`` in a session of its own, with this fault of the compiler in the program of the experts."""
        plants = [{"when": IN_EXPERTS, "then": fault}] if fault else []
        compiler = install_compiler(self.directory / "bin", plants=plants)
        step = ["--target", "trn2", "--mode", "regions", "--batch-sizes", "1", "--max-context", "40", "--jobs", "2"]
        kept = ["--store", str(self.store.local.root), "--json", str(self.directory / "report.json")]
        command = [sys.executable, "-m", "deepinfer_neuron", "compile", str(self.checkpoint), *step, *kept, *arguments]
        environment = os.environ | {"DEEPINFER_NEURON_CC": str(compiler), "TMPDIR": str(self.work)}
        environment |= {"DEEPINFER_NEURON_CC_RETRIES": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start_interruptible(command, env=environment, **pipes)

    def compile(self, fault: str = "", *arguments: str) -> tuple[int, str]:
        """Exit code and stderr of a whole ``compile``."""
        process = self.start(fault, *arguments)
        _, errors = process.communicate(timeout=600)
        return process.returncode, errors

    def states(self) -> dict[str, str]:
        """What the last report says of each program, by the region that uses it first."""
        report: dict[str, Any] = json.loads((self.directory / "report.json").read_text())
        return {program["region"]: program["state"] for program in report["programs"]}

    def assert_nothing_is_left(self) -> None:
        """No process of the compiler, no directory of one, no lock, and nothing half-written."""
        assert compiler_processes(self.directory / "bin") == []
        assert list(self.work.glob("deepinfer-neuron-*")) == []
        root = self.store.local
        assert [*root.root.glob(".tmp.*"), *root.layout.locks.glob("*")] == []
        assert self.store.verify() == []


@pytest.fixture
def machine(nano_a: Path, tmp_path: Path) -> Machine:
    return Machine(nano_a, tmp_path)


@pytest.mark.slow
def test_a_compiler_that_crashes_in_one_program_fails_that_one_only(machine: Machine):
    code, errors = machine.compile("signal=SIGSEGV")
    assert code == 1
    assert "error: layers.0.experts of batch 1: trn2: neuronx-cc was ended by signal 11 (SIGSEGV)" in errors
    states = machine.states()
    assert {region for region, state in states.items() if state == "failed"} == {"layers.0.experts"}
    assert [state for region, state in states.items() if region != "layers.0.experts"] == ["made"] * 9
    (failure,) = machine.store.failures()
    assert "SIGSEGV" in failure.log
    machine.assert_nothing_is_left()
    artifacts = [find_program(machine.store, one.digest) for one, _ in machine.store.entries(PROGRAM)]
    assert {artifact.target for artifact in artifacts} == {"trn2"}
    for artifact in artifacts:
        read_neff(artifact.payload, target="trn2", logical_core_size=2)


@pytest.mark.slow
def test_after_an_interrupt_nothing_runs_on_and_the_next_run_goes_on(machine: Machine):
    process = machine.start("hang")
    seen: set[str] = set()
    for line in iter(process.stdout.readline, ""):
        seen.add(line.strip().partition(" in ")[0])
        if "layers.0.experts of batch 1: compiling" in seen and "end of batch 1: compiled" in seen:
            break
    assert compiler_processes(machine.directory / "bin") != []
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "the same command goes on from what is stored" in errors
    assert len(machine.store.entries(PROGRAM)) == 9
    assert machine.store.failures() == []
    machine.assert_nothing_is_left()

    assert machine.compile()[0] == 0
    states = machine.states()
    assert {region for region, state in states.items() if state == "made"} == {"layers.0.experts"}
    assert machine.compile("hang", "--assert-hit")[0] == 0
    assert set(machine.states().values()) == {"hit"}
    machine.assert_nothing_is_left()
