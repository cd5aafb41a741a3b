"""Compile and run one small program on the host: what a process of its own does for `doctor`."""

from __future__ import annotations

import torch

from ..compiler.torch_compile.backend import deepinfer_neuron


def _step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x @ y, (8,))


def check_host() -> None:
    """Raises what goes wrong, and AssertionError if the program computes something else than eager PyTorch."""
    x, y = torch.randn(4, 8), torch.randn(8, 8)
    torch.testing.assert_close(torch.compile(_step, backend=deepinfer_neuron)(x, y), _step(x, y))


if __name__ == "__main__":
    check_host()
