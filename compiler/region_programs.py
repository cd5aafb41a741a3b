"""Compile each kind of region once."""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from ..runtime.artifacts import Artifact
from .canonical import canonical_digest
from .lowering.decompose import Decompositions
from .lowering.lower import LoweredModule, lower_graph
from .lowering.options import Numerics
from .regions import Region
from .targets.base import Target


@dataclass(frozen=True)
class TimedArtifact:
    """A program and the seconds that the target's compiler took for it."""

    artifact: Artifact
    seconds: float


class RegionPrograms:
    """Programs by the canonical digest of the region, compiled by the threads of ``pool``."""

    def __init__(self, target: Target, numerics: Numerics, pool: Executor):
        self._target = target
        self._options = target.lowering_options(numerics)
        self._decompositions = Decompositions(self._options)
        self._pool = pool
        self._programs: dict[str, Future[TimedArtifact]] = {}

    def program(self, region: Region) -> tuple[str, Future[TimedArtifact]]:
        """A region's canonical digest, and its program when it is compiled.

        A new kind of region is lowered here, in the caller's thread: lowering traces with FX, which works in one
        thread at a time.

        Raises:
            LoweringError: an operator has no lowering.
        """
        digest = canonical_digest(region)
        if digest not in self._programs:
            lowered = lower_graph(region.module, self._options, region.aliases, self._decompositions)
            self._programs[digest] = self._pool.submit(_compile, self._target, lowered)
        return digest, self._programs[digest]


def _compile(target: Target, lowered: LoweredModule) -> TimedArtifact:
    start = time.perf_counter()
    artifact = target.compile(lowered)
    return TimedArtifact(artifact, time.perf_counter() - start)
