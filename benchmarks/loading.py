"""What a second start costs: cold compile against fresh processes that load, and how loading grows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from ..compiler.api import compile_decode
from ..engine.loading import load_decode
from ..model.checkpoint.sizes import config_json
from ..model.config import ModelConfig
from ..model.identity import model_identity
from ..model.kv_cache import CacheGeometry
from ..model.numerics import Numerics
from ..reporting import Say
from ..runtime.devices.pjrt_client import machine_fingerprint
from ..runtime.loader import DecodeVariant, store_weights
from ..runtime.store.store import ArtifactStore
from ..runtime.weights import BoundTensors
from .repeated_layers import repeat_layers, zero_model

MAX_CONTEXT = 1024
_ZEROS = {"values": "zeros"}


@dataclass(frozen=True)
class StartCost:
    """Seconds of starting from a full store, medians over fresh processes.

    ``load_s`` is everything between the imports and the first step; plan, programs, weights (loaded beside the
    programs) and binding are parts of it. ``cold_s`` is a start from an empty store, imports aside, to the same token;
    None if it was not taken.
    """

    layers: int
    batch_sizes: tuple[int, ...]
    import_s: float
    load_s: float
    plan_s: float
    programs_s: float
    weights_s: float
    bind_s: float
    first_step_s: float
    programs: int
    program_bytes: int
    weight_bytes: int
    cold_s: float | None

    @property
    def speedup(self) -> float | None:
        """Cold start over second start, both from after the imports to the first token."""
        return self.cold_s / (self.load_s + self.first_step_s) if self.cold_s else None


def time_start(directory: Path, batch_sizes: Sequence[int], mode: str, rounds: int, say: Say) -> StartCost:
    """Start a checkpoint once from an empty store, here, and ``rounds`` times from the full one, in fresh processes."""
    sizes = tuple(sorted(set(batch_sizes)))
    with TemporaryDirectory() as root:
        say(f"starting with an empty store, batch sizes {', '.join(map(str, sizes))}")
        start = time.perf_counter()
        loaded = load_decode(directory, root, batch_sizes=sizes, mode=mode, say=say)
        token = loaded.step([loaded.open()], [loaded.table.config.bos_token_id]).argmax()
        cold_s = time.perf_counter() - start
        strict = {"batch_sizes": sizes, "mode": mode, "on_miss": "error"}
        say(f"starting {rounds} times with the full store")
        starts = _fresh_starts({"store": root, "directory": str(directory), "options": strict}, rounds)
    if any(one["token"] != int(token) for one in starts):
        raise AssertionError(f"a second start chose {[one['token'] for one in starts]}, the first {int(token)}")
    return _cost(loaded.table.config.num_hidden_layers, sizes, starts, cold_s)


def time_growth(
    size: str, layer_counts: Sequence[int], batch_sizes: Sequence[Sequence[int]], mode: str, rounds: int, say: Say
) -> list[StartCost]:
    """Second starts of made-up models of zeros, for each number of layers and each list of batch sizes."""
    base = ModelConfig.from_dict(config_json(size))
    costs = []
    for layers, sizes in product(layer_counts, batch_sizes):
        say(f"compiling and storing {layers} layers for batch sizes {', '.join(map(str, sizes))}")
        with TemporaryDirectory() as root:
            variant = _store_zeros(repeat_layers(base, layers), tuple(sizes), mode, ArtifactStore(Path(root)))
            described = {"store": root, "variant": asdict(variant), "weights": _ZEROS}
            costs.append(_cost(layers, tuple(sizes), _fresh_starts(described, rounds), None))
    return costs


def _store_zeros(config: ModelConfig, sizes: tuple[int, ...], mode: str, store: ArtifactStore) -> DecodeVariant:
    geometry = CacheGeometry.for_requests(MAX_CONTEXT, max(sizes))
    identity = model_identity(config, geometry, Numerics())
    model = zero_model(config, geometry)
    runner = compile_decode(model, sizes, mode=mode, store=store, identity=identity)
    variant = DecodeVariant(identity, sizes, "host", machine_fingerprint(), "fast", mode)
    key = variant.weights_key(_ZEROS, runner.plan)
    store_weights(store, key, runner.plan, lambda plan: BoundTensors(model, plan.tensor_names))
    return variant


def _fresh_starts(description: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    module = f"{__package__}.fresh_start"
    command = [sys.executable, "-m", module, json.dumps(description)]
    results = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(rounds)]
    return [json.loads(result.stdout) for result in results]


def _cost(layers: int, sizes: tuple[int, ...], starts: Sequence[dict[str, Any]], cold_s: float | None) -> StartCost:
    if any(one["compiler_imported"] for one in starts):
        raise AssertionError("a start from a full store imported the compiler")
    seconds = {name: median(one[name] for one in starts) for name in ("import_s", "load_s", "first_step_s")}
    reports = [one["report"] for one in starts]
    parts = {name: median(one[name] for one in reports) for name in ("plan_s", "programs_s", "weights_s", "bind_s")}
    sizes_of = {name: reports[0][name] for name in ("programs", "program_bytes", "weight_bytes")}
    return StartCost(layers=layers, batch_sizes=sizes, cold_s=cold_s, **seconds, **parts, **sizes_of)
