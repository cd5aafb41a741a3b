"""What every comparison starts from: a checkpoint, its golden values, an eager model with room for the prompts."""

from __future__ import annotations

from pathlib import Path

from ...reporting import Say
from ...runtime.devices.choice import default_target
from ..checkpoint.loader import Checkpoint, open_checkpoint
from ..checkpoint.tiny import make_checkpoint
from ..engram_lookup import EngramLookup
from ..kv_cache import CacheGeometry
from ..numerics import target_numerics
from ..requests import RequestPool
from ..weights import load_model
from .golden import Golden, load_golden, write_golden

_CONTEXT_STEP = 256


def load_golden_prompts(directory: Path, size: str, say: Say) -> tuple[Checkpoint, Golden]:
    """The checkpoint of ``directory`` and its golden values, each made first if it is not there."""
    ensure_checkpoint(directory, size, say)
    checkpoint = open_checkpoint(directory)
    return checkpoint, golden_of(checkpoint, say)


def ensure_checkpoint(directory: Path, size: str, say: Say) -> None:
    """Make a checkpoint in ``directory`` unless one is there, of any size."""
    if not (directory / "config.json").exists():
        say(f"making a {size} checkpoint in {directory}")
        make_checkpoint(directory, size)


def golden_of(checkpoint: Checkpoint, say: Say) -> Golden:
    """The golden values beside a checkpoint, made first if they are not there."""
    path = golden_path(checkpoint)
    if not path.exists():
        say("running the reference on the built-in prompts")
        write_golden(checkpoint, path)
    return load_golden(path, checkpoint)


def golden_path(checkpoint: Checkpoint) -> Path:
    """Where a checkpoint's golden values are kept."""
    return checkpoint.directory / "golden.safetensors"


def make_pool(checkpoint: Checkpoint, golden: Golden, requests: int, target: str | None = None) -> RequestPool:
    """An eager model with caches for ``requests`` of the longest golden sequence, and one more.

    It computes in the fp8 range of ``target``, left out that of the device in ``DEEPINFER_NEURON_DEVICE``, or in the
    one that the environment asks for. Raises ConfigError for an unknown target, and for a range that the target does
    not have, and DeviceError if the device is not there.
    """
    longest = max(len(prompt.tokens) for prompt in golden.prompts.values())
    context = -(-longest // _CONTEXT_STEP) * _CONTEXT_STEP
    numerics = target_numerics(target or default_target())
    model = load_model(checkpoint, CacheGeometry.for_requests(context, requests + 1), numerics)
    return RequestPool(model, EngramLookup(checkpoint, model.numerics))
