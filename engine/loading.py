"""Start a checkpoint's decode step from a store: compile once, then never again."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from ..errors import StoreMissError
from ..model.checkpoint.loader import open_checkpoint
from ..model.engram_lookup import EngramLookup
from ..model.request_table import Request, RequestTable
from ..model.stored_tables import stored_engram_tables
from ..reporting import Say
from ..runtime.devices.choice import device_for
from ..runtime.loader import LoadedRunner, LoadReport, load_runner
from ..runtime.runner import DecodeRunner
from ..runtime.store.default import open_store
from ..runtime.store.store import ArtifactStore
from .decode_source import DecodeOptions, DecodeSource

OnMiss = Literal["compile", "error"]
"""What to do when the store lacks the plan or a program: compile what is missing, or refuse to start."""

logger = logging.getLogger("deepinfer_neuron.engine.loading")


@dataclass(frozen=True)
class LoadedDecode:
    """A decode step that is ready.

    Attributes:
        runner: the step itself; it takes the model's decode slots.
        table: who owns which cache blocks.
        report: how long the parts of the load took.
        seconds: of the whole start, with the compilation if the step was ``compiled`` in it.
    """

    runner: DecodeRunner
    table: RequestTable
    report: LoadReport
    seconds: float
    compiled: bool

    def open(self, expected_tokens: int = 0) -> Request:
        """A request without tokens, with cache blocks for the first ``expected_tokens``.

        Raises InputError when as many requests are open as the caches hold, or not enough blocks are free.
        """
        return self.table.open(expected_tokens)

    def step(self, requests: Sequence[Request], token_ids: Sequence[int]) -> Tensor:
        """Append one token to each request; logits float32 [requests, vocabulary] after it, until the next step.

        Raises InputError for an id outside the vocabulary, a request that is full, closed or named twice, too few free
        blocks, or more requests than the largest batch size.
        """
        return self.table.advance(requests, token_ids, self.runner)

    def prefill(self, request: Request, token_ids: Sequence[int]) -> Tensor:
        """Append a prompt to a request, one token a step; logits float32 [1, vocabulary] after it, until the next step.

        Raises InputError as ``step`` does, and for an empty prompt; nothing was appended then.
        """
        return self.table.prefill(request, token_ids, self.runner)

    def close(self, request: Request) -> None:
        """Give a request's cache blocks to others; raises InputError if it is closed already."""
        self.table.remove(request)


def load_decode(
    directory: str | Path,
    store: ArtifactStore | str | Path | None = None,
    *,
    batch_sizes: int | Sequence[int] = DecodeOptions.batch_sizes,
    max_context: int = DecodeOptions.max_context,
    max_requests: int | None = None,
    numerics: str = DecodeOptions.numerics,
    mode: str | None = None,
    target: str | None = None,
    on_miss: OnMiss = "compile",
    say: Say = lambda line: None,
) -> LoadedDecode:
    """Load the compiled decode step of a checkpoint.

    Neither the model nor a compiler is imported unless something is missing: then the missing programs are compiled,
    unless ``on_miss`` forbids it, and the weights brought into the form that the programs take, once. Where the
    target's compiler is not installed, programs of any version of it are loaded, and none is compiled.

    Args:
        store: where programs are found and kept: a directory, or left out that of ``DEEPINFER_NEURON_CACHE``.
        batch_sizes, numerics, mode, target: as in ``compile_decode``.
        max_context: tokens that one request may reach.
        max_requests: that are served at once; as many as the largest batch if left out.
        on_miss: "compile" what is not stored, or "error".
        say: called with a line of text before each thing that takes a while.

    Raises:
        CheckpointError: a damaged checkpoint.
        ConfigError: no store, or an unknown target, numerics or mode.
        StoreMissError: something is not in the store, and ``on_miss`` is "error" or there is no compiler here; the
            message says in what the nearest entry differs.
    """
    start = time.perf_counter()
    opened = open_store(store)
    with open_checkpoint(directory) as checkpoint:
        options = DecodeOptions(batch_sizes, max_context, max_requests, numerics, mode, target)
        source = DecodeSource(checkpoint, options)
        try:
            loaded, compiled = _load(source, opened), False
        except StoreMissError as miss:
            if on_miss == "error" or not source.can_compile:
                raise
            say(f"compiling: {miss}")
            source.compile(opened, say)
            loaded, compiled = _load(source, opened), True
        lookup = EngramLookup(checkpoint, source.numerics, stored_engram_tables(checkpoint, opened))
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
