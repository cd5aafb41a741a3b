"""What a ``transformers`` model must be so that its decode step can be made from it."""

from __future__ import annotations

import inspect
from typing import Any

import transformers
from torch import nn
from transformers import PreTrainedModel

from ...errors import CaptureError, ConfigError

ROPES_OF_THE_WHOLE_BATCH = ("dynamic", "longrope")
"""Rotary embeddings whose frequencies for one request depend on how long the others of the batch are."""
ARGUMENTS = ("input_ids", "attention_mask", "position_ids", "cache", "use_cache")


def check_decoder(model: PreTrainedModel) -> None:
    """Raise CaptureError, with the part that is in the way, unless ``model`` is a decoder of text on the CPU."""
    problem = _problem(model)
    if problem:
        raise CaptureError(f"{type(model).__name__} cannot be made into a decode step: {problem}")


def check_sizes(model: PreTrainedModel, max_context: int, max_requests: int) -> None:
    """Raise ConfigError unless caches of these sizes make sense for ``model``."""
    if min(max_context, max_requests) < 1:
        raise ConfigError(f"max_context {max_context}, max_requests {max_requests}: both must be at least 1")
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and max_context > longest:
        raise ConfigError(
            f"max_context {max_context}: {type(model).__name__} has positions for {longest} tokens "
            "(max_position_embeddings of its config); ask for as many or fewer"
        )


def _problem(model: PreTrainedModel) -> str | None:
    config = model.config
    if config.is_encoder_decoder:
        return "it is an encoder and a decoder (is_encoder_decoder), and only decoders have a step; pass a decoder"
    parts = [name for name in config.sub_configs if getattr(config, name, None) is not config.get_text_config()]
    if parts:
        return f"it takes more than text ({', '.join(parts)}); load the model of its text alone, a ...ForCausalLM"
    if model.get_output_embeddings() is None:
        return "it has no head that gives logits; load it with AutoModelForCausalLM"
    taken = inspect.signature(inspect.unwrap(type(model).forward)).parameters
    missing = [name for name in ARGUMENTS if name not in taken]
    if missing:
        return (
            f"its forward takes no {', '.join(missing)} in transformers {transformers.__version__}; steps are made for "
            "decoders of transformers 5.24 whose positions are given to them"
        )
    ropes = sorted({name for one in model.modules() for name in _rope_types(one) if name in ROPES_OF_THE_WHOLE_BATCH})
    if ropes:
        return (
            f"its rotary embedding is of type {ropes[0]!r}, whose frequencies change with the longest request of a "
            "batch; load it with rope_parameters of another type"
        )
    elsewhere = sorted({str(one.device) for one in model.parameters() if one.device.type != "cpu"})
    if elsewhere:
        return f"its parameters are on {', '.join(elsewhere)}; call model.to('cpu') first, the programs take them there"
    return None


def _rope_types(module: nn.Module) -> list[str]:
    rope: Any = getattr(module, "rope_type", None)
    return list(rope.values()) if isinstance(rope, dict) else [rope] if isinstance(rope, str) else []
