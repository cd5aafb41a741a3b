"""What a caller of ``torch.compile`` asks for beside options: its modes, and functions compiled ahead of time."""

from __future__ import annotations

import torch

from ...errors import ConfigError

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def check_mode(mode: str | None) -> None:
    """Accept every mode that PyTorch documents: there is one way to compile, without graphs of kernels or tuning.

    Raises:
        ConfigError: an unknown mode.
    """
    if mode is not None and mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r} of torch.compile: expected one of {list(MODES)}, or leave it out")


def refuse_aot_compile() -> None:
    """Raise ConfigError where ``torch.compile(f).aot_compile(...)`` wants a function that it can write to a file."""
    if torch._functorch.config.bundled_autograd_cache:
        raise ConfigError(
            "the deepinfer_neuron backend cannot be used with aot_compile, which writes functions by pickle: call the "
            "compiled function, or keep compiled decode steps in a store with `deepinfer-neuron compile`"
        )
