"""Every way a probed compiler can end, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import stablehlo_texts
import torch
from deepinfer_neuron.bisection.probes.probe import IDENTITY, CompileProbe, shorten
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.targets.command import CompilerCommand
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.errors import CompileCancelledError, ConfigError
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


def neuron(directory: Path, monkeypatch: pytest.MonkeyPatch, fault: str = "", **options: object) -> CompilerCommand:
    asked = replace(Settings(compiler=install_compiler(directory / "bin", fault)), **options)
    for module in ("neuronx", "process"):
        monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: asked)
    return probe_compiler("trn2", None)


def python(code: str, words: str = "{input}") -> CompilerCommand:
    """A command that runs Python code."""
    compiler = probe_compiler(None, f"python {words}")
    return replace(compiler, command=(sys.executable, "-c", code, *compiler.command[1:]))


def ask(compiler: CompilerCommand, candidate: Candidate = IDENTITY, **limits: float) -> Verdict:
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


def test_a_damaged_log_file_and_much_of_it_are_no_obstacle():
    code = (
        "import sys; open('more.txt', 'wb').write(b'\\xff' * 9000 + b'\\n[NCC_ILSA062] too deep: 17\\n'); sys.exit(70)"
    )
    verdict = ask(replace(python(code), log_name="more.txt"))
    assert verdict.signature == Signature("error", "ILSA062", "too deep: #")
    assert "characters left out" in verdict.log and verdict.log.endswith("too deep: 17\n")


def test_success_without_the_output_is_an_error_and_with_it_is_none():
    verdict = ask(python("pass", "{input} {output.bin}"))
    assert verdict.signature == Signature("error", message="reported success: it wrote no program.bin")
    assert ask(python("import sys; open(sys.argv[2], 'w')", "{input} {output}")).signature is None
    assert ask(python("pass")).signature is None


def test_the_command_gets_its_environment_and_that_of_this_process(monkeypatch):
    monkeypatch.setenv("OF_THIS_PROCESS", "7")
    code = "import os; print(os.environ['OF_THIS_PROCESS'], os.environ['COLOUR'])"
    assert ask(replace(python(code), environment={"COLOUR": "red"})).log == "7 red\n"


def test_paths_that_are_not_ascii_are_fine(tmp_path):
    tool = tmp_path / "l'outil 道具.sh"
    tool.write_text('#!/bin/sh\ngrep -q func "$1" && echo "é" > "$2"\n')
    tool.chmod(0o755)
    compiler = probe_compiler(None, f'"{tool}" {{input.mlir}} {{output}}')
    assert ask(compiler).signature is None
    assert ask(replace(compiler, output_name="œuvre")).signature is None


@pytest.mark.parametrize("content", ["", "#!/no/such/interpreter\n", "\x7fELF"], ids=["missing", "script", "binary"])
def test_a_compiler_that_cannot_be_started_is_no_verdict(content, tmp_path):
    path = tmp_path / "compiler"
    path.write_text(content)
    path.chmod(0o755)
    compiler = probe_compiler(None, f"{path} {{input}}")
    if not content:
        path.unlink()
    with pytest.raises(ConfigError, match=r"cannot start .*compiler"):
        ask(compiler)


def test_a_candidate_that_the_format_has_no_form_for_is_invalid():
    compiler = probe_compiler(None, "true {input.vhlo}")
    verdict = ask(compiler, of_text(stablehlo_texts.top_k("f32")))
    assert verdict.signature is not None and verdict.signature.outcome == "invalid"
    assert verdict.signature.message.startswith("the module cannot be written as a portable artifact")


def start(probe: CompileProbe, candidate: Candidate, cancel: threading.Event) -> tuple[threading.Thread, list[object]]:
    """A probe in a thread of its own, and what will have come of it."""
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(probe(candidate, cancel))
        except Exception as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


def test_another_thread_can_cancel_one_probe_of_two(tmp_path, monkeypatch, work):
    hanging = CompileProbe(neuron(tmp_path, monkeypatch, "hang"))
    cancelled, other = threading.Event(), threading.Event()
    first, first_ends = start(hanging, IDENTITY, cancelled)
    second, second_ends = start(hanging, PRODUCT, other)
    while len([one for one in work.iterdir() if (one / "output.txt").exists()]) < 2:
        time.sleep(0.02)
    cancelled.set()
    first.join()
    assert [type(end) for end in first_ends] == [CompileCancelledError]
    assert second.is_alive() and len(list(work.iterdir())) == 1
    other.set()
    second.join()
    assert [type(end) for end in second_ends] == [CompileCancelledError]


def test_what_was_cancelled_before_is_not_started():
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CompileCancelledError, match="before it began"):
        CompileProbe(probe_compiler(None, "false {input}"))(IDENTITY, cancel)


def test_probes_at_once_do_not_take_each_others_answers():
    code = "import sys; text = open(sys.argv[1]).read(); sys.exit('error: ' + ('sort' if 'sort' in text else 'none'))"
    probe = CompileProbe(python(code))
    runs = [start(probe, (SORT, IDENTITY)[number % 2], threading.Event()) for number in range(6)]
    for thread, _ in runs:
        thread.join()
    signatures = [verdict.signature for _, ends in runs for verdict in ends if isinstance(verdict, Verdict)]
    assert signatures == [Signature("error", message="sort"), Signature("error", message="none")] * 3


@pytest.mark.parametrize("target", ["host", "iree"])
def test_a_real_compiler_takes_a_module_and_refuses_another(target):
    compiler = probe_compiler(target, None)
    assert ask(compiler).signature is None
    assert ask(compiler, PRODUCT).signature is None
    verdict = ask(compiler, of_text(stablehlo_texts.custom_call("Nowhere")))
    assert verdict.signature is not None and (verdict.signature.outcome, verdict.signature.code) == ("error", "")
    said = {"host": "NOT_FOUND: No registered implementation for untyped custom call to Nowhere for Host"}
    expected = said.get(
        target, "failed to legalize operation 'stablehlo.custom_call' that was explicitly marked illegal"
    )
    assert verdict.signature.message == expected
    assert "Nowhere" in verdict.log


@pytest.mark.parametrize("target", ["host", "iree"])
def test_a_real_compiler_that_takes_too_much_is_ended(target):
    compiler = probe_compiler(target, None)
    assert ask(compiler, PRODUCT, seconds=0.01).signature == Signature("timeout")
    assert ask(compiler, PRODUCT, memory_bytes=1 << 20).signature == Signature("out of memory")


def test_every_format_reaches_the_command():
    formats = {
        "text": b"#loc",
        "mlir": b"ML\xefR",
        "portable": b"ML\xefR",
        "hlo": b"\n\x04main",
        "python": b"import torch",
    }
    for format, start_of_it in formats.items():
        code = f"import sys; assert open(sys.argv[1], 'rb').read().startswith({start_of_it!r})"
        compiler = replace(python(code), format=format)
        assert ask(compiler).signature is None and ask(compiler, PRODUCT).signature is None, format


def test_a_log_is_shortened_in_the_middle():
    assert shorten("a" * 10, 10) == "a" * 10
    assert shorten("abcdefghijkl", 8) == "ab\n[4 characters left out]\nghijkl"
