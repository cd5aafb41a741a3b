"""Seconds of the first call of ``transformers`` models under ``torch.compile``: ours and Inductor, interleaved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from ..errors import ConfigError
from ..reporting import Say

BACKENDS = ("deepinfer_neuron", "inductor")
TOKENS = 16
SIZES = {
    "vocab_size": 1000,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
}
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "mixtral": EXPERTS,
    "gpt_oss": EXPERTS,
    "gemma3_text": {"sliding_window": 8},
}
"""``model_type`` and what its config has beside ``SIZES``."""


@dataclass(frozen=True)
class FirstCallTime:
    """One model. Seconds are medians; the ratio is the median of paired rounds, below 1 is faster."""

    model: str
    ours_s: float
    inductor_s: float
    ours_to_inductor: float


def time_first_calls(rounds: int, say: Say) -> list[FirstCallTime]:
    """Time every model of ``MODELS`` in this process, after each backend has compiled something small.

    Raises:
        ConfigError: ``transformers`` is not installed.
    """
    if find_spec("transformers") is None:
        raise ConfigError("transformers is not installed: pip install 'deepinfer-neuron[transformers]'")
    ids = torch.arange(TOKENS)[None]
    for backend in BACKENDS:
        _seconds(nn.Linear(2, 2), torch.ones(1, 2), backend)
    results = []
    for name in MODELS:
        say(f"{name}: {rounds} first calls of each")
        model = _model(name)
        results.append(_compare(name, lambda backend, model=model: _seconds(model, ids, backend), rounds))
    return results


def _compare(name: str, first_call: Callable[[str], float], rounds: int) -> FirstCallTime:
    """Seconds of ``first_call`` with each backend in turn."""
    pairs: Sequence[tuple[float, ...]] = [tuple(map(first_call, BACKENDS)) for _ in range(rounds)]
    ours, inductor = zip(*pairs, strict=True)
    ratio = statistics.median(left / right for left, right in pairs)
    return FirstCallTime(name, statistics.median(ours), statistics.median(inductor), ratio)


def _seconds(model: nn.Module, x: torch.Tensor, backend: str) -> float:
    """From nothing compiled, and without Inductor's caches on disk, to the first result."""
    from torch._inductor import config

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad(), config.patch(force_disable_caches=True):
        start = time.perf_counter()
        compiled(x)
        return time.perf_counter() - start


def _model(name: str) -> nn.Module:
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **SIZES, **MODELS[name])).eval()
