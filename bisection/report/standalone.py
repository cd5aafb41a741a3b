"""Runs a compiler on one module and says whether it fails as it did.

Uses the standard library alone, as do the files that it imports: scripts that repeat a failure carry all of them.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ...compiler.targets.diagnostics import log_lines
from ...compiler.targets.supervision import Limits, NotStartedError, supervise
from ..probes.failure_signature import Match, matches, signature_of, without_program
from ..probes.verdict import Outcome, Signature

REPRODUCED, COMPILED, OTHER_FAILURE, NO_COMPILER, UNUSABLE = 0, 1, 2, 3, 4
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


class EndedError(Exception):
    """A signal asked this script to end."""


def main(case: Case, embedded: str, words: Sequence[str]) -> int:
    """Carry out the command line; returns the exit status.

    Args:
        case: what is run.
        embedded: the module in base64, or the name of the file beside the script that holds it after an ``@``.
        words: of the command line.
    """
    ended, received = threading.Event(), []

    def end(number: int, _: object) -> None:
        received.append(number)
        ended.set()

    # Not by an exception: it could come when the compiler is started and nobody waits for it yet.
    for number in ENDING_SIGNALS:
        signal.signal(number, end)
    try:
        options = parse_options(words, case)
        return repeat(case, read_module(case, embedded), options, ended)
    except EndedError:
        return 128 + received[0]
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


def repeat(case: Case, module: bytes, options: argparse.Namespace, ended: threading.Event) -> int:
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
            ending = run_once(case, command, module, options, ended)
        except NotStartedError as error:
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


def run_once(
    case: Case, command: Sequence[str], module: bytes, options: argparse.Namespace, ended: threading.Event
) -> Ending:
    """One run in a directory of its own, of whose processes none is left; EndedError if ``ended`` is set meanwhile."""
    with tempfile.TemporaryDirectory(prefix="repro-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        for name in (case.output_name, case.log_name):
            if name:
                (directory / name).unlink(missing_ok=True)
        (directory / case.input_name).write_bytes(module)
        limits = Limits(options.seconds, case.memory_bytes)
        result = supervise(command, directory, limits, ended, {**os.environ, **case.environment})
        if ended.is_set():
            raise EndedError
        log, text = directory / case.log_name, result.output
        if case.log_name and log.is_file():
            text += "\n" + log.read_text(errors="replace")
        seen = signature_of(result, text)
        if seen is None and case.output_name and not (directory / case.output_name).exists():
            seen = without_program(f"it wrote no {case.output_name}")
    return Ending(result.ending, seen, text)


def compare(case: Case, ending: Ending) -> str:
    """In what a run differs from the expected failure; empty if in nothing."""
    if ending.seen is None:
        return "it compiled"
    wanted = Signature(case.outcome, case.code, case.message)
    return "" if matches(wanted, ending.seen, case.match) else f"another failure: {ending.seen}"
