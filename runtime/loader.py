"""From a store to a runner: plan, programs and weights, without capturing or compiling anything.

A plan is stored under everything that decides it, so that another process finds it from the model's description alone.
It names its programs by their keys in the store. Weights are stored a second time, in the form that the programs take
them, and mapped into memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..settings import settings
from .devices.base import Device, Executable
from .plan import DecodePlan
from .plan_sources import plan_sources
from .processor import usable_processors
from .runner import DecodeRunner
from .sources import source_digests
from .store.entry import StoredEntry
from .store.key import ArtifactKey
from .store.programs import find_program
from .store.store import ArtifactStore, Made
from .stored_tensors import StoredTensors, tensors_to_store
from .tensor_source import TensorSource
from .weight_image import map_image, write_image

PLAN = "plan"
WEIGHTS = "weights"
_PLAN_FILE = "plan.json"
_SHARD_BYTES = 128 << 20
"""Files of about this size are verified side by side."""

TensorMaker = Callable[[DecodePlan], TensorSource]
"""Makes the tensors that a plan names from where they come from, such as a checkpoint."""


@dataclass(frozen=True)
class DecodeVariant:
    """What decides a plan, besides this package's sources.

    Attributes:
        identity: JSON values that decide the model's graph.
        batch_sizes: compiled sizes, ascending.
        target, fingerprint: whose compiler is used, and what its programs depend on.
        numerics, mode: as in ``compile_decode``.
    """

    identity: Mapping[str, Any]
    batch_sizes: tuple[int, ...]
    target: str
    fingerprint: str
    numerics: str
    mode: str

    @property
    def plan_key(self) -> ArtifactKey:
        """Where the plan is stored."""
        parts = {
            "identity": self.identity,
            "batch_sizes": self.batch_sizes,
            "target": self.target,
            "fingerprint": self.fingerprint,
            "numerics": self.numerics,
            "mode": self.mode,
            "pass_limit": settings().pass_limit,
            "sources": plan_sources(self.target),
            "torch": str(torch.__version__),
        }
        return ArtifactKey(PLAN, parts)

    def weights_key(self, weights: Mapping[str, Any], plan: DecodePlan) -> ArtifactKey:
        """Where the plan's form of the weights that ``weights`` identifies is stored."""
        forms = [one.to_json() for one in plan.bindings]
        sources = source_digests(f"{__package__}.weights", f"{__package__}.stored_tensors")
        parts = {"identity": self.identity, "weights": weights, "forms": forms, "sources": sources}
        return ArtifactKey(WEIGHTS, parts)


@dataclass(frozen=True)
class LoadReport:
    """Seconds and sizes of one load. Programs and weights are loaded at the same time."""

    plan_s: float
    programs_s: float
    weights_s: float
    bind_s: float
    programs: int
    program_bytes: int
    weight_bytes: int


@dataclass(frozen=True)
class LoadedRunner:
    """A runner and what loading it took."""

    runner: DecodeRunner
    report: LoadReport


def store_plan(store: ArtifactStore, variant: DecodeVariant, plan: DecodePlan) -> None:
    """Store a plan whose programs are in the store."""
    description = f"{len(plan.programs)} programs for batch sizes {', '.join(map(str, variant.batch_sizes))}"
    content = json.dumps(plan.to_json()).encode()
    store.put(variant.plan_key, {_PLAN_FILE: content}, {"description": description, "programs": list(plan.programs)})


def load_runner(
    store: ArtifactStore,
    variant: DecodeVariant,
    weights: Mapping[str, Any],
    make_tensors: TensorMaker,
    device: Device,
) -> LoadedRunner:
    """Load what ``store_plan`` and ``compile_decode`` stored.

    Args:
        weights: JSON values that tell the weights from any others.
        make_tensors: called if the weights are not in the store in the form that the programs take.

    Raises:
        StoreMissError: the plan or a program is not in the store; the message says in what the nearest one differs.
        DeviceError: a program does not run on this machine.
    """
    started = time.perf_counter()
    entry = store.require(variant.plan_key)
    plan = DecodePlan.from_json(json.loads(entry.read(_PLAN_FILE)))
    planned = time.perf_counter()
    with ThreadPoolExecutor(max_workers=usable_processors()) as pool:
        mapped = pool.submit(_timed_image, store, variant.weights_key(weights, plan), plan, make_tensors)
        executables = _load_programs(store, plan, device, pool)
        programmed = time.perf_counter()
        image, weights_s = mapped.result()
    bound = time.perf_counter()
    runner = DecodeRunner(plan, executables, StoredTensors(plan.bindings, image), device)
    report = LoadReport(
        plan_s=planned - started,
        programs_s=programmed - planned,
        weights_s=weights_s,
        bind_s=time.perf_counter() - bound,
        programs=len(executables),
        program_bytes=sum(len(one.artifact.payload) for one in executables.values()),
        weight_bytes=sum(tensor.nbytes for tensor in image.values()),
    )
    return LoadedRunner(runner, report)


def store_weights(store: ArtifactStore, key: ArtifactKey, plan: DecodePlan, make: TensorMaker) -> dict[str, Tensor]:
    """The image of the weights under ``key``, written first unless it is there; mapped, or as made if it cannot be."""
    made: dict[str, Tensor] = {}

    def make_image() -> Made:
        made.update(tensors_to_store(plan.bindings, make(plan)))
        shards = {f"weights-{number}.safetensors": shard for number, shard in enumerate(_shards(made))}
        writers = {name: _writer(shard) for name, shard in shards.items()}
        return Made(writers, {"description": f"{len(made)} tensors in {len(shards)} files"})

    entry, _ = store.get_or_make(key, make_image)
    return made if entry.directory is None else _map_entry(entry)


def _timed_image(
    store: ArtifactStore, key: ArtifactKey, plan: DecodePlan, make: TensorMaker
) -> tuple[dict[str, Tensor], float]:
    start = time.perf_counter()
    return store_weights(store, key, plan, make), time.perf_counter() - start


def _load_programs(
    store: ArtifactStore, plan: DecodePlan, device: Device, pool: ThreadPoolExecutor
) -> dict[str, Executable]:
    """Read, verify and, where the device allows it, load in the pool."""
    if device.loads_in_any_thread:
        loaded = pool.map(lambda digest: device.load(find_program(store, digest)), plan.programs)
    else:
        loaded = map(device.load, pool.map(partial(find_program, store), plan.programs))
    return dict(zip(plan.programs, loaded, strict=True))


def _map_entry(entry: StoredEntry) -> dict[str, Tensor]:
    names = [name for name in entry.manifest.files if name.endswith(".safetensors")]
    return {name: tensor for file in names for name, tensor in map_image(entry.path(file)).items()}


def _shards(tensors: Mapping[str, Tensor]) -> Iterable[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        shard[name] = tensor
        if sum(one.nbytes for one in shard.values()) >= _SHARD_BYTES:
            yield shard
            shard = {}
    yield shard


def _writer(shard: Mapping[str, Tensor]) -> Callable[[Any], None]:
    return lambda file: write_image(file.write, shard)
