"""Compile the decode step of a checkpoint, and say what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .compiler.api import compile_decode
from .errors import ConfigError
from .explain.step import ExplainedStep, explain_runner
from .model.accuracy.golden import GREEDY_STEPS
from .model.accuracy.prompts import PROMPT_LENGTHS
from .model.checkpoint.loader import open_checkpoint
from .settings import settings
from .workbench import Say, make_model

BUILT_IN_TOKENS = max(PROMPT_LENGTHS.values()) + GREEDY_STEPS
"""Tokens that a request needs room for to follow the longest built-in prompt."""


@dataclass(frozen=True)
class CompileResult:
    """Every batch size that was compiled, smallest first."""

    steps: list[ExplainedStep]


def run_compile(
    directory: Path,
    batch_sizes: Sequence[int],
    mode: str | None,
    numerics: str,
    tokens: int = BUILT_IN_TOKENS,
    say: Say = lambda line: None,
    target: str = "host",
) -> CompileResult:
    """Compile the step of a checkpoint with caches for the largest batch of requests of ``tokens`` tokens.

    ``mode``, ``numerics`` and ``target`` are those of ``compile_decode``. Raises CheckpointError for a damaged
    checkpoint, ConfigError if the environment forbids compiling, and what ``compile_decode`` raises.
    """
    if settings().enforce_eager:
        raise ConfigError("DEEPINFER_ENFORCE_EAGER is set, so nothing would be compiled: unset it")
    checkpoint = open_checkpoint(directory)
    say("loading the decode model")
    model = make_model(checkpoint, tokens, max(batch_sizes))
    runner = compile_decode(model, batch_sizes, target, numerics, mode, say)
    return CompileResult(explain_runner(runner))
