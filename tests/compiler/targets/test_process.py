"""Every way a compiler can end, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deepinfer_neuron.compiler.targets.process import ProcessLimits, ProcessResult, run_process
from deepinfer_neuron.compiler.targets.process_group import living_members, resident_bytes
from deepinfer_neuron.errors import ConfigError

SLEEP = "import time; time.sleep(600)"
CHILDREN = (  # three children, then the id of the group in a file
    "import subprocess, sys, os\n"
    f"for _ in range(3): subprocess.Popen([sys.executable, '-c', {SLEEP!r}])\n"
    "open('group', 'w').write(str(os.getpgid(0)))\n"
)


def python(code: str, directory: Path, **keywords) -> ProcessResult:
    return run_process([sys.executable, "-c", code], directory, **keywords)


def is_gone(directory: Path) -> bool:
    return living_members(int((directory / "group").read_text())) == []


def when_started(directory: Path, action: Callable[[], None]) -> None:
    """Act from another thread once the process has started its children."""

    def wait() -> None:
        while not (directory / "group").exists():
            time.sleep(0.02)
        action()

    threading.Thread(target=wait, daemon=True).start()


def test_success_returns_what_was_printed_in_order(tmp_path):
    result = python("import sys; print(1, flush=True); print(2, file=sys.stderr, flush=True); print(3)", tmp_path)
    assert (result.outcome, result.status, result.output) == ("ok", 0, "1\n2\n3\n")
    assert result.ending == "succeeded"


def test_it_runs_in_its_directory_and_with_its_environment(tmp_path):
    code = "import os; print(os.getcwd(), os.environ['COLOUR'])"
    assert python(code, tmp_path, environment={"COLOUR": "red"}).output == f"{tmp_path} red\n"


def test_an_error_has_its_status(tmp_path):
    result = python("raise SystemExit(70)", tmp_path)
    assert (result.outcome, result.status, result.ending) == ("error", 70, "ended with status 70")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTERM", "SIGHUP"])
def test_a_signal_is_named(tmp_path, name):
    # Whoever started the tests may have had it ignored, which a child inherits.
    heed = "" if name == "SIGKILL" else f"signal.signal(signal.{name}, signal.SIG_DFL); "
    result = python(f"import os, signal; {heed}os.kill(os.getpid(), signal.{name})", tmp_path)
    assert (result.outcome, result.status) == ("signal", -getattr(signal, name))
    assert name in result.ending


def test_a_process_that_hangs_is_killed_with_its_children(tmp_path):
    result = python(CHILDREN + SLEEP, tmp_path, limits=ProcessLimits(seconds=3.0))
    assert result.outcome == "timeout" and result.seconds >= 3.0
    assert "was killed after" in result.ending
    assert is_gone(tmp_path)


def test_a_process_that_ends_leaves_no_children(tmp_path):
    assert python(CHILDREN, tmp_path).outcome == "ok"
    assert is_gone(tmp_path)


def test_children_that_ignore_signals_are_killed_too(tmp_path):
    deaf = "import signal\nfor one in (15, 2, 1): signal.signal(one, signal.SIG_IGN)\n"
    assert python(deaf + CHILDREN + SLEEP, tmp_path, limits=ProcessLimits(seconds=3.0)).outcome == "timeout"
    assert is_gone(tmp_path)


def test_memory_of_all_processes_counts(tmp_path):
    hoard = f"import time; kept = bytearray(b'x') * (48 << 20); {SLEEP}"
    code = f"import subprocess, sys\nfor _ in range(2): subprocess.Popen([sys.executable, '-c', {hoard!r}])\n{SLEEP}"
    result = python(code, tmp_path, limits=ProcessLimits(seconds=60, memory_bytes=100 << 20))
    assert result.outcome == "out of memory"


def test_output_without_end_is_stopped(tmp_path):
    result = python("while True: print('x' * 4096)", tmp_path, limits=ProcessLimits(60, output_bytes=1 << 20))
    assert result.outcome == "too much output"


def test_garbage_is_readable(tmp_path):
    assert python("import sys; sys.stdout.buffer.write(bytes(range(256)))", tmp_path).output.endswith("\ufffd")


def test_another_thread_can_cancel(tmp_path):
    cancel = threading.Event()
    when_started(tmp_path, cancel.set)
    result = python(CHILDREN + SLEEP, tmp_path, cancel=cancel)
    assert result.outcome == "cancelled"
    assert is_gone(tmp_path)


def test_an_interrupt_kills_the_process_and_is_passed_on(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        when_started(tmp_path, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            python(CHILDREN + SLEEP, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert is_gone(tmp_path)


def test_a_missing_program_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="cannot start no-such-compiler: No such file"):
        run_process(["no-such-compiler"], tmp_path)


def test_many_runs_at_once_do_not_disturb_each_other(tmp_path):
    results: list[ProcessResult] = []

    def run(number: int) -> None:
        directory = tmp_path / str(number)
        directory.mkdir()
        results.append(python(f"raise SystemExit({number})", directory))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.status for result in results) == list(range(8))


def test_the_memory_of_this_process_group_is_seen():
    assert os.getpid() in living_members(os.getpgid(0))
    assert resident_bytes(os.getpgid(0)) > 10 << 20
    assert resident_bytes(2**22 + 7) == 0
