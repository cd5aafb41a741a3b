"""Start a checkpoint's decode step from a store: compile once, then never again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import StoreMissError
from ..model.checkpoint.loader import open_checkpoint
from ..model.engram_lookup import EngramLookup
from ..model.request_table import RequestTable
from ..model.stored_tables import stored_engram_tables
from ..runtime.devices.choice import device_for
from ..runtime.loader import LoadedRunner, LoadReport, load_runner
from ..runtime.runner import DecodeRunner
from ..runtime.store.store import ArtifactStore
from .decode_source import DecodeOptions, DecodeSource

OnMiss = Literal["compile", "error"]
"""What to do when the store lacks the plan or a program: compile what is missing, or refuse to start."""

Say = Callable[[str], None]

logger = logging.getLogger("deepinfer_neuron.engine.loading")


@dataclass(frozen=True)
class LoadOptions(DecodeOptions):
    """Which step of a checkpoint is loaded, and what to do if it is not stored: ``on_miss``, "compile" or "error"."""

    on_miss: OnMiss = "compile"


@dataclass(frozen=True)
class LoadedDecode:
    """A decode step that is ready, the table that hands out its caches, and how long the parts took.

    ``seconds`` is the whole start, with the compilation if the step was ``compiled`` in it; ``report`` is the load.
    """

    runner: DecodeRunner
    table: RequestTable
    report: LoadReport
    seconds: float
    compiled: bool


def load_decode(
    directory: str | Path,
    store: ArtifactStore,
    options: LoadOptions | None = None,
    say: Say = lambda line: None,
) -> LoadedDecode:
    """Load the compiled decode step of a checkpoint.

    Neither the model nor a compiler is imported unless something is missing: then the missing programs are compiled,
    by the policy of ``options.on_miss``, and the weights brought into the form that the programs take, once. Where the
    target's compiler is not installed, programs of any version of it are loaded, and none is compiled.

    Raises:
        CheckpointError: a damaged checkpoint.
        StoreMissError: something is not in the store, and ``on_miss`` is "error" or there is no compiler here; the
            message says in what the nearest entry differs.
    """
    start = time.perf_counter()
    options = options or LoadOptions()
    with open_checkpoint(directory) as checkpoint:
        source = DecodeSource(checkpoint, options)
        try:
            loaded, compiled = _load(source, store), False
        except StoreMissError as miss:
            if options.on_miss == "error" or not source.can_compile:
                raise
            say(f"compiling: {miss}")
            source.compile(store, say)
            loaded, compiled = _load(source, store), True
        lookup = EngramLookup(checkpoint, source.numerics, stored_engram_tables(checkpoint, store))
        table = RequestTable(checkpoint.config, source.geometry, lookup)
    return LoadedDecode(loaded.runner, table, loaded.report, time.perf_counter() - start, compiled)


def _load(source: DecodeSource, store: ArtifactStore) -> LoadedRunner:
    device, misses = device_for(source.target), []
    for variant in source.stored_variants(store):
        try:
            loaded = load_runner(store, variant, source.weights, source.tensors, device)
        except StoreMissError as miss:
            misses.append(miss)
            continue
        if not source.can_compile:
            logger.info("no compiler for %s here: the programs were made by %s", source.target, variant.fingerprint)
        return loaded
    raise misses[0]
