"""Compile each kind of region once, or find it in the store."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from ...errors import ArtifactError, CompileError
from ...runtime.artifacts import Artifact
from ...runtime.plan import digest
from ...runtime.store.key import ArtifactKey
from ...runtime.store.programs import made_program, program_of
from ...runtime.store.store import ArtifactStore
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
        is_stored: whether it was found in the store.
        key: the digest of its key in the store; None if it has none.
    """

    artifact: Artifact
    seconds: float
    is_stored: bool
    key: str | None

    @property
    def name(self) -> str:
        """What a plan calls the program: the digest of its key, or else of its content."""
        return self.key or digest(self.artifact)


class RegionPrograms:
    """Programs by the canonical digest of the region, compiled by the threads of ``pool``.

    Args:
        store: where programs are looked for first, and put; None compiles them all.
        assert_hit: refuse to compile what the store does not have.
    """

    def __init__(
        self,
        target: Target,
        numerics: Numerics,
        pool: Executor,
        store: ArtifactStore | None = None,
        assert_hit: bool = False,
    ):
        if assert_hit and store is None:
            raise ArtifactError("assert_hit: there is no store; pass one or set DEEPINFER_NEURON_CACHE")
        self._lowering = RegionLowering(target, numerics)
        self._pool = pool
        self._store = store
        self._assert_hit = assert_hit
        self._programs: dict[str, Future[TimedArtifact]] = {}

    def program(self, region: Region, batch_size: int | None = None) -> Future[TimedArtifact]:
        """A region's program when it is compiled; ``batch_size`` are the requests of its step, if it is of one.

        A new kind of region that is not stored is lowered here, in the caller's thread: lowering traces with FX,
        which works in one thread at a time.

        Raises:
            LoweringError: an operator has no lowering.
            ArtifactError: ``assert_hit``, and the program is not stored; the message says what differs.
        """
        kind = canonical_digest(region)
        if kind not in self._programs:
            key = self._key(region)
            self._programs[kind] = self._find(key) or self._submit(region, batch_size, key)
        return self._programs[kind]

    def _find(self, key: ArtifactKey | None) -> Future[TimedArtifact] | None:
        if self._store is None or key is None:
            return None
        start = time.perf_counter()
        entry = self._store.require(key) if self._assert_hit else self._store.get(key)
        if entry is None:
            return None
        found: Future[TimedArtifact] = Future()
        found.set_result(TimedArtifact(program_of(entry), time.perf_counter() - start, True, key.digest))
        return found

    def _submit(self, region: Region, batch_size: int | None, key: ArtifactKey | None) -> Future[TimedArtifact]:
        return self._pool.submit(self._compile_or_explain, self._lowering.lower(region), key, region, batch_size)

    def _key(self, region: Region) -> ArtifactKey | None:
        """The key of a program in the store; None if there is no store or no key is sure to be right."""
        if self._store is None:
            return None
        try:
            return self._lowering.key(region)
        except ArtifactError as error:
            if self._assert_hit:
                raise
            logger.warning("the program of %s is not stored: %s", region.name, error)
            return None

    def _compile_or_explain(
        self, lowered: LoweredModule, key: ArtifactKey | None, region: Region, batch_size: int | None
    ) -> TimedArtifact:
        try:
            return self._compile(lowered, key, region.name)
        except CompileError as error:
            command = next_command(self._store, key, self._lowering, region, batch_size, lambda: lowered.bytecode)
            raise CompileError(f"{error}{command}", error.log) from error

    def _compile(self, lowered: LoweredModule, key: ArtifactKey | None, name: str) -> TimedArtifact:
        start, target = time.perf_counter(), self._lowering.target
        if self._store is None or key is None:
            return TimedArtifact(target.compile(lowered), time.perf_counter() - start, False, None)
        entry, outcome = self._store.get_or_make(key, lambda: made_program(target.compile(lowered), name))
        return TimedArtifact(program_of(entry), time.perf_counter() - start, outcome != "made", key.digest)
