"""Compile a decode step in this process: of a module with slots, or of a ``transformers`` decoder as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from torch import nn

from ..compiler.api import compile_decode as compile_module
from ..errors import ConfigError
from ..reporting import Say
from ..runtime.ladder import size_ladder
from ..runtime.runner import DecodeRunner
from ..runtime.store.store import ArtifactStore
from .huggingface.detection import is_hugging_face_model

if TYPE_CHECKING:
    from .huggingface.decode import HuggingFaceDecode


@overload
def compile_decode(
    model: nn.Module,
    batch_sizes: int | Iterable[int],
    target: str | None = None,
    numerics: str = "fast",
    mode: str | None = None,
    progress: Say = ...,
    store: ArtifactStore | str | Path | Literal[False] | None = None,
    assert_hit: bool = False,
    identity: Mapping[str, Any] | None = None,
) -> DecodeRunner: ...


@overload
def compile_decode(
    model: nn.Module,
    batch_sizes: int | Iterable[int],
    target: str | None = None,
    numerics: str = "fast",
    mode: str | None = None,
    progress: Say = ...,
    store: ArtifactStore | str | Path | Literal[False] | None = None,
    assert_hit: bool = False,
    *,
    max_context: int,
    max_requests: int | None = None,
) -> HuggingFaceDecode: ...


def compile_decode(
    model: nn.Module,
    batch_sizes: int | Iterable[int],
    target: str | None = None,
    numerics: str = "fast",
    mode: str | None = None,
    progress: Say = lambda line: None,
    store: ArtifactStore | str | Path | Literal[False] | None = None,
    assert_hit: bool = False,
    identity: Mapping[str, Any] | None = None,
    *,
    max_context: int | None = None,
    max_requests: int | None = None,
) -> DecodeRunner | HuggingFaceDecode:
    """Compile a decode step.

    A module with ``decode_slots`` gives a runner that takes these slots, as ``compiler.api.compile_decode`` says. A
    ``transformers`` decoder, as ``AutoModelForCausalLM`` loads it, gives requests to open, prefill, step and close;
    its weights are shared with ``model``, its caches are made here.

    Args:
        model: one of the two.
        batch_sizes, target, numerics, mode, progress, store, assert_hit: as in ``compiler.api.compile_decode``.
        identity: likewise; for a module with ``decode_slots`` only.
        max_context: tokens that one request may reach; for a ``transformers`` decoder only, which needs it.
        max_requests: that are open at once; as many as the largest batch if left out.

    Raises:
        CaptureError: also if a ``transformers`` model is no decoder of text; the message names what is in the way.
        ConfigError: also for arguments of the other kind of model, or sizes that the model has no positions for.
    """
    compile_step = partial(
        compile_module,
        target=target,
        numerics=numerics,
        mode=mode,
        progress=progress,
        store=store,
        assert_hit=assert_hit,
    )
    name = type(model).__name__
    if not is_hugging_face_model(model):
        if max_context is not None or max_requests is not None:
            raise ConfigError(
                f"{name} is no transformers model: it keeps its own caches, so leave max_context and max_requests out"
            )
        return compile_step(model, batch_sizes, identity=identity)
    if max_context is None:
        raise ConfigError(f"{name} is a transformers model: say with max_context how many tokens a request may reach")
    if identity is not None:
        raise ConfigError(f"{name} is a transformers model: its plan is not stored, so leave identity out")
    from .huggingface.decode import compile_hugging_face

    return compile_hugging_face(model, size_ladder(batch_sizes), max_context, max_requests, compile_step)
