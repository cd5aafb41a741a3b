"""Compile each kind of region once, by workers, into a store that both sides share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...errors import ArtifactError, CompileError, LoweringError
from ...runtime.store.key import ArtifactKey
from ...runtime.store.programs import PROGRAM
from ...runtime.store.store import ArtifactStore
from ..programs.failed_region import next_command
from ..programs.region_lowering import RegionLowering
from ..regions.canonical import canonical_digest
from ..regions.cut import Region
from .messages import Answer, Job
from .pool import WorkerPool

State = Literal["waiting", "compiling", "hit", "shared hit", "waited", "made", "failed"]
"""Where a program is: the outcomes of the store, and what comes before and instead of one."""


@dataclass(frozen=True)
class StoredProgram:
    """A kind of region and what came of compiling it.

    Attributes:
        region, batch_size: the first region that calls it.
        name: digest of its key; empty if it has none.
        state: "waited" if another process made it meanwhile, "made" if one of ours did.
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


class WorkerPrograms:
    """Programs by the canonical digest of the region. One that cannot be compiled does not stop the others.

    Args:
        assert_hit: count what the store does not have as failed.
    """

    def __init__(
        self, lowering: RegionLowering, store: ArtifactStore, pool: WorkerPool, assert_hit: bool, watch: Watch
    ):
        self._lowering = lowering
        self._store = store
        self._pool = pool
        self._assert_hit = assert_hit
        self._watch = watch
        self._programs: dict[str, StoredProgram] = {}
        self._answers: list[Future[None]] = []
        self._lock = threading.Lock()

    def add(self, region: Region, batch_size: int) -> str:
        """Have a region's program made unless it was met before; returns the region's canonical digest.

        A new kind of region that is not stored is lowered here, in the caller's thread. Waits while workers have
        enough to do.
        """
        kind = canonical_digest(region)
        if kind not in self._programs:
            self._programs[kind] = StoredProgram(region.name, batch_size)
            self._make(kind, region)
        return kind

    def wait(self) -> dict[str, StoredProgram]:
        """All programs by the digests that ``add`` returned, when nothing more happens to them."""
        for answer in self._answers:
            answer.result()
        return self._programs

    def _make(self, kind: str, region: Region) -> None:
        start = time.perf_counter()
        try:
            key = self._lowering.key(region)
            self._change(kind, name=key.digest)
            found = self._store.look_up(key.digest)
            if found is not None:
                size = found[0].manifest.files[PROGRAM].size
                self._change(kind, state=found[1], seconds=time.perf_counter() - start, bytes=size)
                return
            if self._assert_hit:
                self._store.require(key)
            self._refuse_known_failure(key, region, self._programs[kind].batch_size)
            self._submit(kind, Job(region.name, key, self._lowering.lower(region)), region)
        except (ArtifactError, CompileError, LoweringError) as error:
            self._change(kind, state="failed", seconds=time.perf_counter() - start, error=str(error))

    def _refuse_known_failure(self, key: ArtifactKey, region: Region, batch_size: int) -> None:
        try:
            self._store.refuse_known_failure(key)
        except CompileError as error:
            raise CompileError(f"{error}{self._next(key, region, batch_size)}") from error

    def _next(self, key: ArtifactKey, region: Region, batch_size: int, module: bytes | None = None) -> str:
        def bytecode() -> bytes:
            return self._lowering.lower(region).bytecode if module is None else module

        return next_command(self._store, key, self._lowering, region, batch_size, bytecode)

    def _submit(self, kind: str, job: Job, region: Region) -> None:
        key, name, batch_size = job.key, job.name, self._programs[kind].batch_size

        def on_end(answer: Answer) -> None:
            if answer.has_crashed:
                self._store.remember_failure(key, CompileError(f"{name}: {answer.error}"))
            state, error = answer.outcome or "failed", answer.error
            if answer.outcome is None:
                error += self._next(key, region, batch_size, job.module.bytecode)
            self._change(kind, state=state, seconds=answer.seconds, bytes=answer.bytes, error=error)

        self._answers.append(self._pool.submit(job, lambda: self._change(kind, state="compiling"), on_end))

    def _change(self, kind: str, **changes: Any) -> None:
        with self._lock:
            program = self._programs[kind] = replace(self._programs[kind], **changes)
        self._watch(program)
