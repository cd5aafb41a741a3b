"""What it takes to replay a decode step, as data: one plan for each batch size.

A plan names its compiled program by digest and says what feeds each of the program's inputs.
It holds no tensor and no code, so a process with the plan, the programs and the weights can
replay without capturing anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..errors import ArtifactError
from .artifacts import Artifact
from .slots import SlotSpec
from .structure import Description

SCHEMA = 1

BindingKind = Literal["weight", "kv", "slot"]


@dataclass(frozen=True)
class InputBinding:
    """What feeds one program input.

    Attributes:
        kind: ``weight`` is read only, ``kv`` is updated in place by each replay, ``slot`` is a step's input.
        name: qualified name of the model's tensor, or the slot's name.
        dtype: dtype of that tensor.
        shape: shape of that tensor; for a slot its leading number is the batch size.
        carrier: dtype the program takes: the same bits if it is as wide as ``dtype``, the same values if narrower.
    """

    kind: BindingKind
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    carrier: torch.dtype


@dataclass(frozen=True)
class ReplayPlan:
    """How to replay the decode step for one batch size.

    Attributes:
        batch_size: rows of every slot and of every output.
        artifact: digest of the compiled program.
        inputs: one binding per program input, in order.
        aliases: program output -> program input whose memory it takes over.
        result: structure of what the caller gets, over the program's outputs.
    """

    batch_size: int
    artifact: str
    inputs: tuple[InputBinding, ...]
    aliases: Mapping[int, int]
    result: Description

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which ``from_json`` makes an equal plan."""
        return {
            "batch_size": self.batch_size,
            "artifact": self.artifact,
            "inputs": [_binding_to_json(binding) for binding in self.inputs],
            "aliases": sorted(self.aliases.items()),
            "result": self.result,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReplayPlan:
        """The plan that ``to_json`` described."""
        return cls(
            batch_size=data["batch_size"],
            artifact=data["artifact"],
            inputs=tuple(_binding_from_json(binding) for binding in data["inputs"]),
            aliases=dict(data["aliases"]),
            result=data["result"],
        )


@dataclass(frozen=True)
class DecodePlan:
    """The slots of a decode step and its replay plans, largest batch size first."""

    slots: tuple[SlotSpec, ...]
    replays: tuple[ReplayPlan, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which ``from_json`` makes an equal plan."""
        slots = [slot.to_json() for slot in self.slots]
        return {"schema": SCHEMA, "slots": slots, "replays": [replay.to_json() for replay in self.replays]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DecodePlan:
        """The plan that ``to_json`` described; raises ArtifactError for another schema or missing parts."""
        if data.get("schema") != SCHEMA:
            raise ArtifactError(
                f"decode plan of schema {data.get('schema')!r}: this version reads {SCHEMA}; compile again"
            )
        try:
            slots = tuple(SlotSpec.from_json(slot) for slot in data["slots"])
            replays = tuple(ReplayPlan.from_json(replay) for replay in data["replays"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"damaged decode plan ({type(error).__name__}: {error}); compile again") from error
        return cls(slots, replays)


def digest(artifact: Artifact) -> str:
    """Name of a compiled program: sha256 of its target, fingerprint and payload."""
    content = hashlib.sha256(f"{artifact.target}\0{artifact.fingerprint}\0".encode())
    content.update(artifact.payload)
    return content.hexdigest()


def _binding_to_json(binding: InputBinding) -> dict[str, Any]:
    return {
        "kind": binding.kind,
        "name": binding.name,
        "dtype": _dtype_name(binding.dtype),
        "shape": list(binding.shape),
        "carrier": _dtype_name(binding.carrier),
    }


def _binding_from_json(data: Mapping[str, Any]) -> InputBinding:
    return InputBinding(
        kind=data["kind"],
        name=data["name"],
        dtype=getattr(torch, data["dtype"]),
        shape=tuple(data["shape"]),
        carrier=getattr(torch, data["carrier"]),
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
