"""Every way a probed compiler can end, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import stablehlo_texts
import torch
from deepinfer_neuron.compiler.bisect.probe import IDENTITY, CompileProbe
from deepinfer_neuron.compiler.bisect.probe_compiler import ProbeCompiler, probe_compiler
from deepinfer_neuron.compiler.bisect.subject import Candidate
from deepinfer_neuron.compiler.bisect.verdict import Signature, Verdict
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.settings import Settings
from host_programs import trace
from neuron_compilers import install_compiler


def of_text(text: str) -> Candidate:
    return Candidate(1, text.encode())


def product() -> Candidate:
    module = trace(lambda x, y: (x @ y).relu(), torch.zeros(2, 3), torch.zeros(3, 4))
    return Candidate(2, lower_graph(module, device_options("trn2")).bytecode, module)


PRODUCT = product()
SORT = of_text(stablehlo_texts.sort("sort"))


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where probes work, a directory whose name is not ASCII; no file and no process may stay there."""
    directory = tmp_path / "à l'œuvre 作業"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []
    assert processes_of(directory) == processes_of(tmp_path / "bin") == []


def processes_of(directory: Path) -> list[int]:
    """Ids of living processes that work below a directory, or were started with it in their environment or command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            texts = [(process / name).read_bytes() for name in ("environ", "cmdline")]
            inside = (process / "cwd").readlink().is_relative_to(directory)
            if int(process.name) != os.getpid() and (inside or any(str(directory).encode() in text for text in texts)):
                found.append(int(process.name))
    return found


def neuron(directory: Path, monkeypatch: pytest.MonkeyPatch, fault: str = "", **options: object) -> ProbeCompiler:
    asked = replace(Settings(compiler=install_compiler(directory / "bin", fault)), **options)
    for module in ("neuronx", "process"):
        monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: asked)
    return probe_compiler("trn2", None)


def python(code: str, words: str = "{input}") -> ProbeCompiler:
    """A command that runs Python code."""
    compiler = probe_compiler(None, f"python {words}")
    return replace(compiler, command=(sys.executable, "-c", code, *compiler.command[1:]))


def ask(compiler: ProbeCompiler, candidate: Candidate = IDENTITY, **limits: float) -> Verdict:
    return CompileProbe(compiler, ProcessLimits(**limits))(candidate, threading.Event())


@pytest.mark.parametrize("module_format", ["mlir", "hlo"])
def test_a_module_that_the_neuron_compiler_takes_has_no_signature(tmp_path, monkeypatch, module_format):
    compiler = neuron(tmp_path, monkeypatch, module_format=module_format)
    for candidate in (IDENTITY, PRODUCT):
        verdict = ask(compiler, candidate)
        assert verdict.signature is None and verdict.seconds > 0
        assert "Compiler status PASS" in verdict.log


def test_a_refusal_has_its_code_and_the_log_file_is_read(tmp_path, monkeypatch):
    verdict = ask(neuron(tmp_path, monkeypatch), SORT)
    assert verdict.signature is not None
    assert (verdict.signature.outcome, verdict.signature.code) == ("error", "EVRF029")
    assert verdict.signature.message.startswith("Operation sort is not supported on trn#")
    assert "exitcode=70" in verdict.log


TRUNCATED = "NEFF of # bytes: expected a header of # bytes; the file is truncated, compile it again"
FAULTS = [
    ("signal=SIGSEGV", Signature("signal", "SIGSEGV")),
    ("signal=SIGKILL", Signature("signal", "SIGKILL")),
    ("hang", Signature("timeout")),
    ("memory", Signature("out of memory")),
    ("flood", Signature("too much output")),
    ("garbage", Signature("error")),
    ("silent", Signature("error", message="status 1")),
    ("internal", Signature("error", "ITRF901", "TritiumFusion assertion error: Unexpected remat axes")),
    ("killed", Signature("error", "F137", "neuronx-cc was forcibly killed")),
    ("none", Signature("error", message="reported success: it wrote no PATH")),
    ("half", Signature("error", message=f"reported success: PATH: {TRUNCATED}")),
]


@pytest.mark.parametrize(("fault", "signature"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_a_fault_has_its_signature(fault, signature, tmp_path, monkeypatch):
    compiler = neuron(tmp_path, monkeypatch, fault)
    seconds = 3.0 if fault == "hang" else 120.0
    verdict = ask(compiler, PRODUCT, seconds=seconds, memory_bytes=400 << 20, output_bytes=1 << 20)
    assert verdict.signature == signature
    assert len(verdict.log) < 10_000
