"""Workers are started when they are needed, replaced when they die, and gone when the pool is."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
import stand_in_worker
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.workers.messages import Answer, Job
from deepinfer_neuron.compiler.workers.pool import WorkerPool, worker_command
from deepinfer_neuron.runtime.artifacts import TensorType
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.owner import process_exists
from deepinfer_neuron.runtime.store.store import ArtifactStore

COMMAND = [sys.executable, stand_in_worker.__file__]
MODULE = LoweredModule(b"module", (TensorType(torch.float32, (2,)),), (), {}, False, {})


def run(names: list[str], count: int) -> list[Answer]:
    """The answers of jobs with these names, in the order in which they were given."""
    answers: list[Answer] = []
    with WorkerPool(COMMAND, count) as pool:
        for name in names:
            pool.submit(Job(name, ArtifactKey("program", {}), MODULE), lambda: None, answers.append)
    return answers


def test_one_worker_does_one_job_after_the_other_and_ends_with_the_pool():
    answers = run(["a", "b", "c"], 1)
    assert [answer.outcome for answer in answers] == ["made"] * 3
    (process,) = {answer.bytes for answer in answers}
    assert not process_exists(process)


@pytest.mark.parametrize(
    ("name", "message", "has_crashed"),
    [
        ("SIGKILL", r"ended by SIGKILL.*memory.*--jobs", False),
        ("SIGTERM", r"ended by SIGTERM$", False),
        ("SIGSEGV", r"crashed with SIGSEGV", True),
        ("exit 3", r"exit code 3", False),
    ],
)
def test_a_worker_that_dies_fails_its_job_only_and_is_replaced(name, message, has_crashed):
    before, failed, after = run(["before", name, "after"], 1)
    assert (before.outcome, failed.outcome, after.outcome) == ("made", None, "made")
    assert before.bytes != after.bytes
    assert failed.has_crashed is has_crashed
    assert re.search(message, failed.error)


def test_no_worker_is_started_without_a_job():
    with WorkerPool(["/nonexistent"], 2):
        pass


def test_an_interrupt_ends_workers_at_once_and_drops_what_waits():
    started: list[str] = []
    begin = time.monotonic()

    def interrupt():
        with WorkerPool(COMMAND, 2) as pool:
            for name in ("sleep", "sleep", "never", "never"):
                pool.submit(
                    Job(name, ArtifactKey("program", {}), MODULE), lambda name=name: started.append(name), print
                )
            while len(started) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert started == ["sleep", "sleep"]
    assert time.monotonic() - begin < 300


def test_a_worker_gets_all_directories_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    store = ArtifactStore(Path("near"), [Path("far")])
    assert worker_command("host", store)[-3:] == ["host", str(tmp_path / "near"), str(tmp_path / "far")]
