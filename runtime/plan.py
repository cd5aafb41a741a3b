"""What it takes to replay a decode step, as data: one plan for each batch size.

A plan lists the regions of the step in order. Each names its compiled program by digest and says what feeds the
program's inputs; regions that compute the same have one program and differ in what feeds it. A plan holds no tensor
and no code, so a process with the plan, the programs and the weights can replay without capturing anything.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import torch

from ..errors import ArtifactError
from ..passes.weight_layout import WeightLayout
from .artifacts import Artifact
from .dtype_names import dtype_named, name_of
from .slots import SlotSpec
from .structure import Description

SCHEMA = 4

BindingKind = Literal["weight", "kv", "slot", "value"]
GraphMode = Literal["whole", "regions"]


@dataclass(frozen=True)
class InputBinding:
    """What feeds one program input.

    Attributes:
        kind: ``weight`` is read only, ``kv`` is updated in place by each replay, ``slot`` is a step's input, ``value``
            is an output of an earlier region.
        name: qualified name of the model's tensor, or the slot's or the value's name.
        dtype: dtype of that tensor.
        shape: shape of that tensor; for a slot its leading number is the batch size.
        carrier: dtype the program takes: the same bits if it is as wide as ``dtype``, the same values if narrower.
        layout: how a weight's elements are arranged for the program; None as they are.
        rows: first and number of the leading rows of a cache that the program takes; None for the whole tensor.
    """

    kind: BindingKind
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    carrier: torch.dtype
    layout: WeightLayout | None = None
    rows: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object that tells this binding from every other."""
        return {
            "kind": self.kind,
            "name": self.name,
            "dtype": name_of(self.dtype),
            "shape": list(self.shape),
            "carrier": name_of(self.carrier),
            "layout": None if self.layout is None else asdict(self.layout),
            "rows": None if self.rows is None else list(self.rows),
        }


@dataclass(frozen=True)
class RegionPlan:
    """One call of a program.

    Attributes:
        name: the stages it is made of; for people.
        artifact: digest of the compiled program.
        inputs: one binding per program input, in order.
        outputs: name of each program output: the cache that it updates, or the value that it is to later regions.
        aliases: program output -> program input whose memory it takes over, one for each updated cache.
    """

    name: str
    artifact: str
    inputs: tuple[InputBinding, ...]
    outputs: tuple[str, ...]
    aliases: Mapping[int, int]


@dataclass(frozen=True)
class ReplayPlan:
    """How to replay the decode step for one batch size.

    Attributes:
        batch_size: rows of every slot and of every result.
        regions: what to execute, in order.
        results: names of the values that the step returns.
        result: structure of what the caller gets, over those values.
    """

    batch_size: int
    regions: tuple[RegionPlan, ...]
    results: tuple[str, ...]
    result: Description

    @property
    def bindings(self) -> tuple[InputBinding, ...]:
        """Every weight, cache and slot of the step once, in order of first use."""
        inputs = [binding for region in self.regions for binding in region.inputs if binding.kind != "value"]
        return tuple(dict.fromkeys(inputs))

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which ``from_json`` makes an equal plan."""
        return {
            "batch_size": self.batch_size,
            "regions": [_region_to_json(region) for region in self.regions],
            "results": list(self.results),
            "result": self.result,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReplayPlan:
        """The plan that ``to_json`` described; raises ValueError if a value is used before it is made."""
        plan = cls(
            batch_size=data["batch_size"],
            regions=tuple(_region_from_json(region) for region in data["regions"]),
            results=tuple(data["results"]),
            result=data["result"],
        )
        _check_values(plan)
        return plan


@dataclass(frozen=True)
class DecodePlan:
    """The slots of a decode step and its replay plans, largest batch size first."""

    slots: tuple[SlotSpec, ...]
    replays: tuple[ReplayPlan, ...]

    @property
    def bindings(self) -> tuple[InputBinding, ...]:
        """Every weight and cache of all steps once."""
        bindings = [one for replay in self.replays for one in replay.bindings if one.kind in ("weight", "kv")]
        return tuple(dict.fromkeys(bindings))

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Names of the model's tensors that a step reads or updates."""
        return tuple(dict.fromkeys(one.name for one in self.bindings))

    @property
    def programs(self) -> tuple[str, ...]:
        """Digests of all programs once."""
        return tuple(dict.fromkeys(region.artifact for replay in self.replays for region in replay.regions))

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
            _check_rows(replays)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"damaged decode plan ({type(error).__name__}: {error}); compile again") from error
        return cls(slots, replays)


def digest(artifact: Artifact) -> str:
    """Name of a compiled program: sha256 of its target, fingerprint and payload."""
    content = hashlib.sha256(f"{artifact.target}\0{artifact.fingerprint}\0".encode())
    content.update(artifact.payload)
    return content.hexdigest()


def _check_rows(replays: Sequence[ReplayPlan]) -> None:
    """Raise ValueError if two programs take parts of a cache that overlap without being the same."""
    bindings = {binding for replay in replays for binding in replay.bindings if binding.kind == "kv"}
    parts = sorted({(one.name, *(one.rows or (0, math.prod(one.shape[:1]))), one.rows is None) for one in bindings})
    for (name, first, count, _), (other, start, _, _) in pairwise(parts):
        if name == other and start < first + count:
            raise ValueError(f"programs take rows {first} to {first + count} and rows from {start} on of {name!r}")


def _check_values(plan: ReplayPlan) -> None:
    made: set[str] = set()
    for region in plan.regions:
        missing = {binding.name for binding in region.inputs if binding.kind == "value"} - made
        if missing:
            raise ValueError(f"region {region.name!r} reads {sorted(missing)} before they are made")
        made.update(region.outputs)
    if not made.issuperset(plan.results):
        raise ValueError(f"no region makes the results {sorted(set(plan.results) - made)}")


def _region_to_json(region: RegionPlan) -> dict[str, Any]:
    return {
        "name": region.name,
        "artifact": region.artifact,
        "inputs": [binding.to_json() for binding in region.inputs],
        "outputs": list(region.outputs),
        "aliases": sorted(region.aliases.items()),
    }


def _region_from_json(data: Mapping[str, Any]) -> RegionPlan:
    return RegionPlan(
        name=data["name"],
        artifact=data["artifact"],
        inputs=tuple(_binding_from_json(binding) for binding in data["inputs"]),
        outputs=tuple(data["outputs"]),
        aliases=dict(data["aliases"]),
    )


def _binding_from_json(data: Mapping[str, Any]) -> InputBinding:
    return InputBinding(
        kind=data["kind"],
        name=data["name"],
        dtype=dtype_named(data["dtype"]),
        shape=tuple(data["shape"]),
        carrier=dtype_named(data["carrier"]),
        layout=None if data["layout"] is None else _layout_from_json(data["layout"]),
        rows=None if data["rows"] is None else (data["rows"][0], data["rows"][1]),
    )


def _layout_from_json(data: Mapping[str, Any]) -> WeightLayout:
    return WeightLayout(tuple(data["size"]), tuple(data["stride"]), data["offset"])
