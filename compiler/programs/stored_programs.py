"""The programs of a step that is compiled into a store: what happens to each of them, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ...errors import DeepInferNeuronError
from ..regions.canonical import canonical_digest
from ..regions.cut import Region
from .region_programs import RegionPrograms, TimedArtifact

State = Literal["waiting", "compiling", "hit", "shared hit", "waited", "made", "failed"]
"""Where a program is: the outcomes of the store, and what comes before and instead of one."""


@dataclass(frozen=True)
class StoredProgram:
    """A kind of region and what came of compiling it.

    Attributes:
        region, batch_size: the first region that calls it.
        name: digest of its key; empty if it has none.
        state: "waited" if another process made it meanwhile, "made" if this one did.
        seconds: that it took to compile it or to find it.
        bytes: size of the program.
        error: why it failed.
        uses: regions of all batch sizes that call it; counted when all are known.
    """

    region: str
    batch_size: int
    name: str = ""
    state: State = "waiting"
    seconds: float = 0.0
    bytes: int = 0
    error: str = ""
    uses: int = 0

    @property
    def is_stored(self) -> bool:
        """Whether this process did not have it made."""
        return self.state in ("hit", "shared hit", "waited")

    @property
    def is_done(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state not in ("waiting", "compiling")

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.region} of batch {self.batch_size}"


def failed(programs: Iterable[StoredProgram]) -> list[StoredProgram]:
    """The programs that there are not."""
    return [program for program in programs if program.state == "failed"]


Watch = Callable[[StoredProgram], None]
"""Called with a program whenever its state changes, from any thread."""


class StoredPrograms:
    """Programs by the canonical digest of the region. One that cannot be compiled does not stop the others.

    Args:
        programs: compiles them, and stores each or fails.
    """

    def __init__(self, programs: RegionPrograms, watch: Watch):
        self._compiling = programs
        self._watch = watch
        self._programs: dict[str, StoredProgram] = {}
        self._begun: dict[str, float] = {}
        self._ends: list[Future[None]] = []
        self._lock = threading.Lock()

    def add(self, region: Region, batch_size: int) -> str:
        """Have a region's program made unless it was met before; returns the region's canonical digest.

        A new kind of region that is not stored is lowered here, in the caller's thread. Waits while enough is compiled.
        """
        kind = canonical_digest(region)
        if kind not in self._programs:
            self._programs[kind] = StoredProgram(region.name, batch_size)
            self._begun[kind] = time.perf_counter()
            self._make(kind, region, batch_size)
        return kind

    def wait(self) -> dict[str, StoredProgram]:
        """All programs by the digests that ``add`` returned, when nothing more happens to them."""
        for end in self._ends:
            end.result()
        return self._programs

    def _make(self, kind: str, region: Region, batch_size: int) -> None:
        try:
            program = self._compiling.program(
                region,
                batch_size,
                on_key=lambda digest: self._change(kind, name=digest),
                on_start=lambda: self._start(kind),
            )
        except DeepInferNeuronError as error:
            self._fail(kind, error)
        else:
            # Not the program's own future: that one has ended before its callbacks have.
            end: Future[None] = Future()
            self._ends.append(end)
            program.add_done_callback(partial(self._end, kind, end))

    def _start(self, kind: str) -> None:
        self._begun[kind] = time.perf_counter()
        self._change(kind, state="compiling")

    def _end(self, kind: str, end: Future[None], program: Future[TimedArtifact]) -> None:
        if program.cancelled():
            end.cancel()
            return
        try:
            made = program.result()
            size = len(made.artifact.payload)
            self._change(kind, state=made.outcome, seconds=made.seconds, bytes=size)
        except DeepInferNeuronError as error:
            self._fail(kind, error)
        except BaseException as error:
            end.set_exception(error)
            return
        end.set_result(None)

    def _fail(self, kind: str, error: DeepInferNeuronError) -> None:
        seconds = time.perf_counter() - self._begun[kind]
        self._change(kind, state="failed", seconds=seconds, error=str(error))

    def _change(self, kind: str, **changes: Any) -> None:
        with self._lock:
            program = self._programs[kind] = replace(self._programs[kind], **changes)
        self._watch(program)
