"""Compile each kind of region once, or find it in the store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from ...errors import ArtifactError, CompileError
from ...runtime.artifacts import Artifact
from ...runtime.plan import digest
from ...runtime.store.key import ArtifactKey
from ...runtime.store.programs import made_program, program_of
from ...runtime.store.store import ArtifactStore, Outcome
from ..lowering.lower import LoweredModule
from ..lowering.options import Numerics
from ..regions.canonical import canonical_digest
from ..regions.cut import Region
from ..targets.base import Target
from .failed_region import next_command
from .region_lowering import RegionLowering

logger = logging.getLogger("deepinfer_neuron.store")


@dataclass(frozen=True)
class TimedArtifact:
    """A program and how it was come by.

    Attributes:
        seconds: that it took to compile it or to find it.
        outcome: "made" if it was compiled here, or where it was found.
        key: the digest of its key in the store; None if it has none.
    """

    artifact: Artifact
    seconds: float
    outcome: Outcome
    key: str | None

    @property
    def is_stored(self) -> bool:
        """Whether it was found in the store."""
        return self.outcome != "made"

    @property
    def name(self) -> str:
        """What a plan calls the program: the digest of its key, or else of its content."""
        return self.key or digest(self.artifact)


@dataclass(frozen=True)
class _Work:
    """A region to compile, and whom to tell when that begins."""

    region: Region
    batch_size: int | None
    key: ArtifactKey | None
    on_start: Callable[[], None]


class RegionPrograms:
    """Programs by the canonical digest of the region, compiled by the threads of ``pool``.

    Args:
        store: where programs are looked for first, and put; None compiles them all.
        assert_hit: refuse to compile what the store does not have.
        must_store: refuse to compile what has no key, and to return what the store could not keep.
    """

    def __init__(
        self,
        target: Target,
        numerics: Numerics,
        pool: Executor,
        store: ArtifactStore | None = None,
        assert_hit: bool = False,
        must_store: bool = False,
    ):
        if assert_hit and store is None:
            raise ArtifactError("assert_hit: there is no store; pass one or set DEEPINFER_NEURON_CACHE")
        self._lowering = RegionLowering(target, numerics)
        self._pool = pool
        self._store = store
        self._assert_hit = assert_hit
        self._must_store = must_store
        self._programs: dict[str, Future[TimedArtifact]] = {}

    def program(
        self,
        region: Region,
        batch_size: int | None = None,
        on_key: Callable[[str], None] = lambda digest: None,
        on_start: Callable[[], None] = lambda: None,
    ) -> Future[TimedArtifact]:
        """A region's program when it is compiled; ``batch_size`` are the requests of its step, if it is of one.

        A new kind of region that is not stored is lowered here, in the caller's thread: lowering traces with FX,
        which works in one thread at a time.

        Args:
            on_key: called with the digest of the key of a new kind of region.
            on_start: called by the thread that compiles it, when it begins.

        Raises:
            LoweringError: an operator has no lowering.
            ArtifactError: ``assert_hit``, and the program is not stored; the message says what differs.
        """
        kind = canonical_digest(region)
        if kind not in self._programs:
            key = self._key(region)
            if key is not None:
                on_key(key.digest)
            self._programs[kind] = self._find(key) or self._start(_Work(region, batch_size, key, on_start))
        return self._programs[kind]

    def _find(self, key: ArtifactKey | None) -> Future[TimedArtifact] | None:
        if self._store is None or key is None:
            return None
        start = time.perf_counter()
        found = self._store.look_up(key.digest)
        if found is None:
            if self._assert_hit:
                self._store.require(key)
            return None
        entry, outcome = found
        program: Future[TimedArtifact] = Future()
        program.set_result(TimedArtifact(program_of(entry), time.perf_counter() - start, outcome, key.digest))
        return program

    def _start(self, work: _Work) -> Future[TimedArtifact]:
        try:
            if self._store is not None and work.key is not None:
                self._store.refuse_known_failure(work.key)
        except CompileError as error:
            refused: Future[TimedArtifact] = Future()
            refused.set_exception(self._explained(error, work, lambda: self._lowering.lower(work.region).bytecode))
            return refused
        return self._pool.submit(self._compile_or_explain, self._lowering.lower(work.region), work)

    def _key(self, region: Region) -> ArtifactKey | None:
        """The key of a program in the store; None if there is no store or no key is sure to be right."""
        if self._store is None:
            return None
        try:
            return self._lowering.key(region)
        except ArtifactError as error:
            if self._assert_hit or self._must_store:
                raise
            logger.warning("the program of %s is not stored: %s", region.name, error)
            return None

    def _compile_or_explain(self, lowered: LoweredModule, work: _Work) -> TimedArtifact:
        work.on_start()
        try:
            return self._compile(lowered, work)
        except CompileError as error:
            raise self._explained(error, work, lambda: lowered.bytecode) from error

    def _explained(self, error: CompileError, work: _Work, module: Callable[[], bytes]) -> CompileError:
        """The error with the command to go on with."""
        command = next_command(self._store, work.key, self._lowering, work.region, work.batch_size, module)
        return CompileError(f"{error}{command}", error.log)

    def _compile(self, lowered: LoweredModule, work: _Work) -> TimedArtifact:
        start, target, store, key = time.perf_counter(), self._lowering.target, self._store, work.key
        if store is None or key is None:
            return TimedArtifact(target.compile(lowered), time.perf_counter() - start, "made", None)
        entry, outcome = store.get_or_make(
            key, lambda: made_program(target.compile(lowered), work.region.name), target.cancelled
        )
        if self._must_store and entry.directory is None:
            raise ArtifactError(f"it was compiled, but {store.local.root} cannot be written")
        return TimedArtifact(program_of(entry), time.perf_counter() - start, outcome, key.digest)
