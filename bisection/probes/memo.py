"""The memo of one bisection, on disk: what was asked once is not asked again, by whatever process goes on.

One line of JSON for the start of a probe and one for its end, with or without a verdict. A probe without an end was
killed together with this process, perhaps because of what it started: the next run asks again, and gives up some day.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import ArtifactError
from .verdict import Signature, Verdict

SCHEMA = 1

_LOG_CHARACTERS = 4000


class Memo:
    """Verdicts by candidate and compiler, in the order in which they came; safe for threads, for one process at a time.

    Args:
        path: the file; made if it is not there.
        compiler: identifies compiler, flags and limits: others' verdicts are kept and not used.

    Raises:
        ArtifactError: another process is using it, or it is not such a file.
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, compiler: str):
        self._compiler = compiler
        self._lock = threading.Lock()
        self._verdicts: dict[str, list[Verdict]] = {}
        self._interrupted: dict[str, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            self._claim(path)
            self._read(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Memo:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._file.close()

    def verdicts(self, candidate: str) -> list[Verdict]:
        """What is known of the candidate with this digest; one verdict for each run."""
        with self._lock:
            return list(self._verdicts.get(candidate, ()))

    def interrupted(self, candidate: str) -> int:
        """How many probes of it were started in earlier processes and never ended."""
        return max(self._interrupted.get(candidate, 0), 0)

    def start(self, candidate: str) -> None:
        """Note that a probe begins."""
        self._append({"state": "started", "candidate": candidate})

    def end(self, candidate: str, verdict: Verdict) -> None:
        """Note how it ended."""
        signature = None if verdict.signature is None else asdict(verdict.signature)
        content = {"signature": signature, "seconds": round(verdict.seconds, 3), "log": verdict.log[-_LOG_CHARACTERS:]}
        self._append({"state": "ended", "candidate": candidate} | content)
        with self._lock:
            self._verdicts.setdefault(candidate, []).append(verdict)

    def cancel(self, candidate: str) -> None:
        """Note that it was ended from here, and says nothing about the candidate."""
        self._append({"state": "cancelled", "candidate": candidate})

    def _append(self, line: dict[str, Any]) -> None:
        written = json.dumps({"schema": SCHEMA, "compiler": self._compiler} | line) + "\n"
        with self._lock:
            # One write, so that what a kill leaves is whole lines and at most one torn one at the end.
            self._file.write(written.encode())
            self._file.flush()

    def _claim(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ArtifactError(
                f"{path} is in use: another bisection writes there; give this one its own --out"
            ) from error

    def _read(self, path: Path) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            # The next line must not be glued to the torn one.
            os.ftruncate(self._file.fileno(), len(whole))
        for line in _lines(path, whole):
            if line["compiler"] != self._compiler:
                continue
            candidate, state = line["candidate"], line["state"]
            self._interrupted[candidate] = self._interrupted.get(candidate, 0) + (1 if state == "started" else -1)
            if state == "ended":
                self._verdicts.setdefault(candidate, []).append(_verdict(line))


def _lines(path: Path, content: bytes) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(content.splitlines(), 1):
        try:
            line = json.loads(text)
            if line["schema"] != SCHEMA:
                raise ValueError(f"schema {line['schema']}")
            if line["state"] not in ("started", "ended", "cancelled"):
                raise ValueError(f"state {line['state']}")
            yield {"compiler": line["compiler"], "candidate": line["candidate"], **line}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"{path}, line {number}, is not a verdict of schema {SCHEMA} ({error}): give another --out or remove it"
            ) from error


def _verdict(line: dict[str, Any]) -> Verdict:
    signature = line["signature"]
    return Verdict(signature and Signature(**signature), line["seconds"], line["log"])
