"""Programs that are compiled, run in a process of their own and compared with eager PyTorch."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.bisection.accuracy.accuracy_probe import DIFFERENT, AccuracyProbe, Execute
from deepinfer_neuron.bisection.accuracy.drawn_values import draw_inputs
from deepinfer_neuron.bisection.accuracy.execution import EXECUTE, Run, ValueFiles, execute
from deepinfer_neuron.bisection.accuracy.first_difference import first_difference
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe import IDENTITY
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.bisection.probes.probe_runner import ProbeRunner
from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.search.bisect import bisect
from deepinfer_neuron.bisection.search.interestingness import Interestingness
from deepinfer_neuron.bisection.search.options import SearchOptions
from deepinfer_neuron.bisection.search.oracle import Oracle, SubsetOracle
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.bisection.subjects.values import record_values, set_inputs
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.lowering.registry import LOWERINGS
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.errors import CompileCancelledError, ConfigError, DeviceError
from deepinfer_neuron.model.kernels.normalization import rms_norm
from in_process_runs import execute_here
from small_graphs import graph_of, operators
from torch import Tensor

aten = torch.ops.aten
LIMITS = ProcessLimits(300)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where probes work; nothing may stay there."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    # PyTorch makes a directory for itself when Dynamo is loaded.
    assert [path for path in directory.iterdir() if not path.name.startswith("torchinductor")] == []


@pytest.fixture
def wrong_sigmoid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a compiler's mistake: sigmoid is lowered as tanh."""
    monkeypatch.setitem(LOWERINGS, aten.sigmoid.default, LOWERINGS[aten.tanh.default])


def recorded(function: Callable[..., object], *shapes: Tensor, aliases: dict[int, int] | None = None) -> GraphSubject:
    module = graph_of(function, shapes)
    set_inputs(module, draw_inputs(module))
    record_values(module)
    return GraphSubject(module, aliases or {}, LoweringOptions())


def whole(subject: GraphSubject) -> Candidate:
    return subject.candidate(range(len(subject.items)))


def ask(candidate: Candidate, run: Execute = execute_here) -> Verdict:
    with ValueFiles() as files:
        return AccuracyProbe(probe_compiler("host", None), LIMITS, files, run)(candidate, threading.Event())


def ask_process(candidate: Candidate, command: Sequence[str] = EXECUTE) -> Verdict:
    return ask(candidate, partial(execute, command=command))


def gate(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    normal = rms_norm(x, weight, 1e-6)
    return (normal @ normal.t()).sigmoid().argmax(-1), normal * torch.sigmoid(x)


GATE = (torch.empty(4, 8, dtype=torch.bfloat16), torch.empty(8))


def test_a_right_program_has_no_failure():
    assert ask_process(whole(recorded(gate, *GATE))).signature is None


def test_a_wrong_program_says_which_result_is_off(wrong_sigmoid: None):
    verdict = ask_process(whole(recorded(gate, *GATE)))
    assert verdict.signature == DIFFERENT
    assert "result 1: " in verdict.log
    assert "elements are off, the worst at [" in verdict.log


def test_updates_in_place_are_compared_and_leave_the_values_as_they_are():
    subject = recorded(lambda cache, x: (x + 1, cache + x), torch.empty(4), torch.empty(4), aliases={1: 0})
    candidate = whole(subject)
    assert ask(candidate).signature is None
    assert ask(candidate).signature is None


def test_a_candidate_without_values_runs_on_drawn_ones():
    assert ask(IDENTITY).signature is None


def test_integers_and_results_without_elements(monkeypatch: pytest.MonkeyPatch):
    subject = recorded(lambda x: (x[:0] * 2, (x > 0).long()), torch.empty(4, 3))
    assert ask(whole(subject)).signature is None
    monkeypatch.setitem(LOWERINGS, aten.gt.Scalar, LOWERINGS[aten.le.Scalar])
    verdict = ask(whole(recorded(lambda x: (x[:0] * 2, (x > 0).long()), torch.empty(4, 3))))
    assert verdict.signature == DIFFERENT
    assert verdict.log.startswith("result 1: 12 of 12 elements are off")


def test_not_a_number_where_eager_has_none(monkeypatch: pytest.MonkeyPatch):
    def step(x: Tensor) -> Tensor:
        return torch.exp(-x.abs())

    assert ask(whole(recorded(step, torch.empty(4)))).signature is None
    monkeypatch.setitem(LOWERINGS, aten.exp.default, LOWERINGS[aten.log.default])
    verdict = ask(whole(recorded(step, torch.empty(4))))
    assert verdict.signature == DIFFERENT
    assert "nan, expected" in verdict.log


@pytest.mark.parametrize(
    ("code", "signature"),
    [
        ("import os; os.kill(os.getpid(), 11)", Signature("signal", "SIGSEGV", "while it ran")),
        ("raise SystemExit(7)", Signature("error", "", "while it ran: status 7")),
        ("print('error: device error 5'); raise SystemExit(1)", Signature("error", "", "while it ran: device error #")),
    ],
)
def test_a_program_that_fails_while_it_runs_has_another_failure(code: str, signature: Signature):
    assert ask_process(whole(recorded(gate, *GATE)), [sys.executable, "-c", code]).signature == signature


def test_a_program_that_hangs_is_ended():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]

    def run(run: Run, files: ValueFiles, directory: Path, limits: ProcessLimits, cancel: threading.Event):
        return execute(run, files, directory, ProcessLimits(1), cancel, command)

    with ValueFiles() as files:
        probe = AccuracyProbe(probe_compiler("host", None), LIMITS, files, run)
        verdict = probe(whole(recorded(gate, *GATE)), threading.Event())
    assert verdict.signature == Signature("timeout", "", "while it ran")


def test_a_device_that_is_not_there_is_no_verdict():
    code = "print('error: no core'); raise SystemExit(3)"
    with pytest.raises(DeviceError, match="no core"):
        ask_process(whole(recorded(gate, *GATE)), [sys.executable, "-c", code])


def test_the_process_refuses_a_damaged_program(tmp_path: Path):
    damage = tmp_path / "damage.py"
    damage.write_text(
        "import json, sys\n"
        "from pathlib import Path\n"
        "from deepinfer_neuron.bisection.accuracy.execute_process import REQUEST, leave, main\n"
        "directory = Path(sys.argv[1])\n"
        "Path(json.loads((directory / REQUEST).read_text())['payload']).write_bytes(b'damaged')\n"
        "leave(main(directory))\n"
    )
    verdict = ask_process(whole(recorded(gate, *GATE)), [sys.executable, str(damage)])
    assert verdict.signature is not None
    assert verdict.signature.outcome == "error"
    assert verdict.signature.message.startswith("while it ran: the program's payload is damaged")


def test_a_candidate_that_eager_does_not_run_is_invalid():
    subject = recorded(lambda x, rows: torch.embedding(x, rows), torch.empty(2, 8), torch.empty(3, dtype=torch.int32))
    inputs = subject.module.graph.find_nodes(op="placeholder")
    set_inputs(subject.module, [torch.ones(2, 8), torch.tensor([0, 1, 9], dtype=torch.int32)])
    assert len(inputs) == 2
    verdict = ask(whole(subject))
    assert verdict.signature is not None
    assert verdict.signature.outcome == "invalid"


def test_a_module_without_a_graph_is_refused():
    with pytest.raises(ConfigError, match="should compute is not known"):
        ask(Candidate(1, IDENTITY.module))


def test_a_cancelled_probe_is_no_verdict():
    cancel = threading.Event()
    cancel.set()
    with ValueFiles() as files, pytest.raises(CompileCancelledError):
        AccuracyProbe(probe_compiler("host", None), LIMITS, files)(whole(recorded(gate, *GATE)), cancel)


def test_a_program_that_is_cancelled_while_it_runs_is_no_verdict(tmp_path: Path):
    cancel = threading.Event()
    cancel.set()
    run = Run("host", tmp_path / "program", (), (), {}, False, "")
    with ValueFiles() as files, pytest.raises(CompileCancelledError, match="host: cancelled"):
        execute(run, files, tmp_path, LIMITS, cancel, ("/bin/sh", "-c", "sleep 600", "sh"))


def block(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    first = rms_norm(x, weight, 1e-6) * 2
    gated = first * torch.sigmoid(first)
    return gated @ gated.t(), torch.tanh(gated).amax(-1)


def test_one_wrong_operation_is_found_and_is_the_first(tmp_path: Path, wrong_sigmoid: None):
    subject = recorded(block, torch.empty(4, 8, dtype=torch.bfloat16), torch.empty(8))
    compiler = probe_compiler("host", None)
    options = SearchOptions(repeats=1, simplify=False, prepare=record_values)
    with (
        ValueFiles() as files,
        Memo(tmp_path / "log.jsonl", "one") as memo,
        ProbeRunner(AccuracyProbe(compiler, LIMITS, files, execute_here), memo) as runner,
    ):
        result = bisect("block", subject, compiler, runner, options)
        asked = SubsetOracle(subject, Oracle(runner, Interestingness(DIFFERENT), lambda progress: None, 1))
        first = first_difference(asked)
    assert operators(result.reduction.minimal.graph) == ["aten.sigmoid.default"]
    assert result.failure.signature == DIFFERENT
    assert result.evidence.is_minimal
    assert [subject.items[index].name for index in first] == [subject.items[result.reduction.kept[0]].name]
