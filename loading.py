"""Start a checkpoint's decode step from a store: compile once, then never again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from .errors import StoreMissError
from .model.checkpoint.loader import Checkpoint, open_checkpoint
from .model.engram_lookup import EngramLookup
from .model.identity import model_identity, weights_identity
from .model.kv_cache import CacheGeometry
from .model.request_table import RequestTable
from .runtime.devices.choice import default_target, device_for
from .runtime.devices.pjrt import PjrtDevice, machine_fingerprint
from .runtime.ladder import size_ladder
from .runtime.loader import DecodeVariant, LoadedRunner, LoadReport, load_runner
from .runtime.plan import DecodePlan
from .runtime.runner import DecodeRunner
from .runtime.store.store import ArtifactStore
from .runtime.tensor_source import TensorSource
from .settings import settings
from .target_numerics import target_numerics

OnMiss = Literal["compile", "error"]
"""What to do when the store lacks the plan or a program: compile what is missing, or refuse to start."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class LoadOptions:
    """Which step of a checkpoint is loaded.

    Attributes:
        batch_sizes: as in ``compile_decode``.
        tokens: that one request may reach.
        requests: that are served at once; as many as the largest batch if left out.
        numerics, mode: as in ``compile_decode``.
        on_miss: "compile" or "error".
    """

    batch_sizes: int | Sequence[int] = (1, 2, 4, 8)
    tokens: int = 1024
    requests: int | None = None
    numerics: str = "fast"
    mode: str | None = None
    on_miss: OnMiss = "compile"


@dataclass(frozen=True)
class LoadedDecode:
    """A decode step that is ready, the table that hands out its caches, and how long the parts took.

    ``report`` is None if the step was compiled in this process, which took ``seconds`` with everything else.
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
    by the policy of ``options.on_miss``, and the weights brought into the form that the programs take, once. The step
    runs on the device that ``DEEPINFER_NEURON_DEVICE`` asks for; for a Neuron core the compiler is asked its version.

    Raises:
        CheckpointError: a damaged checkpoint.
        StoreMissError: ``on_miss`` is "error" and something is not in the store; the message says in what the nearest
            entry differs.
    """
    start = time.perf_counter()
    options = options or LoadOptions()
    with open_checkpoint(directory) as checkpoint:
        source = _Source(checkpoint, options)
        try:
            loaded, compiled = source.load(store), False
        except StoreMissError as miss:
            if options.on_miss == "error":
                raise
            say(f"compiling: {miss}")
            source.compile(store, say)
            loaded, compiled = source.load(store), True
        table = RequestTable(checkpoint.config, source.geometry, EngramLookup(checkpoint, source.numerics))
    return LoadedDecode(loaded.runner, table, loaded.report, time.perf_counter() - start, compiled)


class _Source:
    """A checkpoint, and the step that is wanted of it."""

    def __init__(self, checkpoint: Checkpoint, options: LoadOptions):
        sizes, target = size_ladder(options.batch_sizes), default_target()
        self.checkpoint = checkpoint
        self.numerics = target_numerics(target)
        self.geometry = CacheGeometry.for_requests(options.tokens, options.requests or sizes[-1])
        self.variant = DecodeVariant(
            identity=model_identity(checkpoint.config, self.geometry, self.numerics),
            batch_sizes=sizes,
            target=target,
            fingerprint=_fingerprint(target),
            numerics=options.numerics,
            mode=options.mode or settings().graph_mode,
        )

    def load(self, store: ArtifactStore) -> LoadedRunner:
        """The runner of a stored plan."""
        return load_runner(
            store, self.variant, weights_identity(self.checkpoint), self._tensors, device_for(self.variant.target)
        )

    def compile(self, store: ArtifactStore, say: Say) -> None:
        """Store plan and programs. The compiler is imported here: a start from a full store does without it."""
        compiler = import_module(".compiler.api", __package__)
        variant = self.variant
        compiler.compile_decode(
            self._model(),
            variant.batch_sizes,
            target=variant.target,
            numerics=variant.numerics,
            mode=variant.mode,
            progress=say,
            store=store,
            identity=variant.identity,
        )

    def _tensors(self, plan: DecodePlan) -> TensorSource:
        """The weights from the checkpoint, brought into the form that the programs take."""
        weights = import_module(".runtime.weights", __package__)
        return weights.BoundTensors(self._model(), plan.tensor_names)

    def _model(self):
        return import_module(".model.weights", __package__).load_model(self.checkpoint, self.geometry, self.numerics)


def _fingerprint(target: str) -> str:
    """What programs for a target depend on: the host's are known here, of others their compiler is asked."""
    if target == PjrtDevice.name:
        return machine_fingerprint()
    return import_module(".compiler.pipeline", __package__).find_target(target).fingerprint()
