"""The body of ``repro.py``: runs a compiler on one module and says whether it fails as it did.

``script_source.py`` copies this file, and what it uses of the package, into a script that stands alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ...compiler.targets.diagnostics import log_lines
from ...compiler.targets.process import Outcome as RunOutcome
from ...compiler.targets.process import ProcessResult
from ...compiler.targets.process_group import kill_group, resident_bytes
from ..probes.failure_signature import Match, matches, signature_of, without_program
from ..probes.verdict import Outcome, Signature

REPRODUCED, COMPILED, OTHER_FAILURE, NO_COMPILER, UNUSABLE = 0, 1, 2, 3, 4
OUTPUT_LIMIT = 64 << 20
POLL_SECONDS = 0.05
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Case:
    """A compiler's command, and how it failed.

    ``runs`` is how often it is tried by itself until it fails so; limits are None for none; names of files that there
    are not are empty; ``match`` says how much of the failure has to be the same.
    """

    command: Sequence[str]
    input_name: str
    output_name: str
    log_name: str
    environment: Mapping[str, str]
    seconds: float | None
    memory_bytes: int | None
    runs: int
    sha256: str
    match: Match
    outcome: Outcome
    code: str
    message: str


@dataclass(frozen=True)
class Ending:
    """How a run ended: in words, as a failure if it was one, and all that was printed."""

    words: str
    seen: Signature | None
    text: str


class UnusableError(Exception):
    """The script cannot do its work; says nothing about the compiler."""


class NoCompilerError(Exception):
    """The compiler cannot be started."""


def main(case: Case, embedded: str, words: Sequence[str]) -> int:
    """Carry out the command line; returns the exit status.

    Args:
        case: what is run.
        embedded: the module in base64, or the name of the file beside the script that holds it after an ``@``.
        words: of the command line.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        options = parse_options(words, case)
        return repeat(case, read_module(case, embedded), options)
    except UnusableError as error:
        print(f"cannot be run: {error}", file=sys.stderr)
    except Exception:
        # Python's own status for it, 1, would say that the module compiles.
        traceback.print_exc()
    return UNUSABLE


class Parser(argparse.ArgumentParser):
    """Ends with the status for unusable scripts: argparse's own would mean another failure of the compiler."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(UNUSABLE, f"{self.prog}: {message}\n")


def parse_options(words: Sequence[str], case: Case) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(description="Runs a compiler on one module and says whether it fails as it did.")
    parser.add_argument("--runs", type=int, help="run it so often and count; without, until it fails so")
    parser.add_argument("--compiler", help=f"the program to start, for {case.command[0]}")
    parser.add_argument("--seconds", type=float, default=case.seconds, help="after which a run is killed")
    parser.add_argument("--keep", type=Path, help="a directory to work in and to leave the files in")
    options = parser.parse_args(words)
    if options.runs is not None and options.runs < 1:
        parser.error("--runs takes a number from 1 on")
    return options


def read_module(case: Case, embedded: str) -> bytes:
    """The module's bytes, checked."""
    try:
        content = Path(__file__).with_name(embedded[1:]).read_bytes() if embedded[:1] == "@" else None
    except OSError as error:
        raise UnusableError(f"{error}; {embedded[1:]} belongs beside this script") from error
    content = base64.b64decode(embedded) if content is None else content
    if hashlib.sha256(content).hexdigest() != case.sha256:
        raise UnusableError("the module is damaged: its sha256 is another one")
    return content


def repeat(case: Case, module: bytes, options: argparse.Namespace) -> int:
    """Run the compiler as often as asked for and say what came of it."""
    command = [options.compiler or case.command[0], *case.command[1:]]
    names = {"{input}": case.input_name, "{output}": case.output_name}
    for name, value in names.items():
        command = [word.replace(name, value) for word in command]
    print(f"command: {' '.join(command)}\nexpected: {expectation(case)}", flush=True)
    count, run, reproduced, different = options.runs or case.runs, 0, 0, 0
    while run < count and not (reproduced and options.runs is None):
        run += 1
        try:
            ending = run_once(case, command, module, options)
        except NoCompilerError as error:
            print(f"no compiler: {error}; name it with --compiler", file=sys.stderr)
            return NO_COMPILER
        difference = compare(case, ending)
        reproduced += not difference
        different += bool(difference) and ending.seen is not None
        print_ending(run, count, ending, difference)
    if count > 1:
        print(f"failed as expected in {reproduced} of {run} runs")
    status = REPRODUCED if reproduced else OTHER_FAILURE if different else COMPILED
    print({REPRODUCED: "REPRODUCED", OTHER_FAILURE: "ANOTHER FAILURE", COMPILED: "NOT REPRODUCED: it compiles"}[status])
    return status


def expectation(case: Case) -> str:
    """The failure in words."""
    if case.match == "any":
        return "any failure"
    message = case.message if case.match == "signature" else ""
    return str(Signature(case.outcome, case.code, message))


def print_ending(run: int, count: int, ending: Ending, difference: str) -> None:
    """What one run did, with the last lines of what the compiler said."""
    lines = [line for line in log_lines(ending.text) if line.strip()]
    print("\n".join(f"  | {line[:300]}" for line in lines[-12:]))
    print(f"run {run} of {count}: it {ending.words}; {difference or 'as expected'}", flush=True)


def run_once(case: Case, command: Sequence[str], module: bytes, options: argparse.Namespace) -> Ending:
    """One run in a directory of its own, of whose processes none is left."""
    with tempfile.TemporaryDirectory(prefix="repro-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        for name in (case.output_name, case.log_name):
            if name:
                (directory / name).unlink(missing_ok=True)
        (directory / case.input_name).write_bytes(module)
        result = run_process(case, command, directory, options.seconds)
        log, text = directory / case.log_name, result.output
        if case.log_name and log.is_file():
            text += "\n" + log.read_text(errors="replace")
        seen = signature_of(result, text)
        if seen is None and case.output_name and not (directory / case.output_name).exists():
            seen = without_program(f"it wrote no {case.output_name}")
    return Ending(result.ending, seen, text)


def run_process(case: Case, command: Sequence[str], directory: Path, seconds: float | None) -> ProcessResult:
    """Run a command and kill it when it takes more than it may."""
    log, start = directory / "output.txt", time.monotonic()
    # A signal between the start of the command and the wait for it would leave it behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **case.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=unblock_signals,
            )
        except OSError as error:
            unblock_signals()
            raise NoCompilerError(f"{command[0]}: {error.strerror}") from error
    reason: RunOutcome | None = None
    try:
        unblock_signals()
        reason = wait_for(process.pid, log, seconds, case.memory_bytes)
    finally:
        # The leader is reaped after the others of its group are killed: its id names the group.
        kill_group(process.pid)
        status = process.wait()
    outcome = reason or ("ok" if status == 0 else "error" if status > 0 else "signal")
    text = log.read_bytes().decode("utf-8", "replace")
    return ProcessResult(outcome, status, time.monotonic() - start, text)


def unblock_signals() -> None:
    """Take the signals that end this process again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def wait_for(process: int, log: Path, seconds: float | None, memory_bytes: int | None) -> RunOutcome | None:
    """Wait until a process has ended, and return None, or why it has to be killed."""
    start = time.monotonic()
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if seconds is not None and time.monotonic() - start > seconds:
            return "timeout"
        if log.stat().st_size > OUTPUT_LIMIT:
            return "too much output"
        if memory_bytes is not None and resident_bytes(process) > memory_bytes:
            return "out of memory"
        time.sleep(POLL_SECONDS)
    return None


def compare(case: Case, ending: Ending) -> str:
    """In what a run differs from the expected failure; empty if in nothing."""
    if ending.seen is None:
        return "it compiled"
    wanted = Signature(case.outcome, case.code, case.message)
    return "" if matches(wanted, ending.seen, case.match) else f"another failure: {ending.seen}"
