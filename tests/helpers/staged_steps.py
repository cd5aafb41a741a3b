"""A decode step of three stages, and a process that compiles it into a store.

Run as ``staged_steps.py STORE LOG ODDITY``; see ``odd_compiler``. Prints every
change, and the states at the end as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import odd_compiler
import torch
from deepinfer_neuron.compiler.programs.stored_programs import StoredProgram
from deepinfer_neuron.compiler.steps.stored_steps import compile_into_store
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.loader import DecodeVariant
from deepinfer_neuron.runtime.slots import SlotSpec
from deepinfer_neuron.runtime.store.store import ArtifactStore


class StagedStep(torch.nn.Module):
    """Stages "sum", which updates a cache, "tanh" and "end"."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0, keepdim=True))
        (y,) = stage_boundary("sum", x + self.total)
        (z,) = stage_boundary("tanh", torch.tanh(y))
        return z * 2.0


def variant_of(*batch_sizes: int) -> DecodeVariant:
    """The step in regions, in fast numerics, for the host."""
    return DecodeVariant({"model": "staged"}, batch_sizes, "host", HostTarget().fingerprint(), "fast", "regions")


def print_state(program: StoredProgram) -> None:
    # In one piece: programs change in several threads.
    print(f"{program.region} {program.state}\n", end="", flush=True)


def main(store: Path, log: Path, oddity: str) -> None:
    odd_compiler.install(oddity, log)
    model, variant = StagedStep(), variant_of(2)
    result = compile_into_store(model, variant, ArtifactStore(store), 2, watch=print_state)
    print(json.dumps({program.region: program.state for program in result.programs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
