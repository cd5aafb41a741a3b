"""Compares a candidate's values with golden ones, name by name, and says whether they agree within the noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ...errors import ArtifactError
from .golden import KIND, read_summary
from .metrics import LogitError, logit_error, relative_error, ulp_distance
from .tensor_file import read_tensors

NOISE_FACTOR = 2
"""Logits agree if their relative error is at most this many times the reference's own noise."""

LEAST_NOISE = 1e-6
"""Relative error allowed where the reference happened to repeat itself exactly."""


def margin_of_chance(noise_max: float) -> float:
    """The lead of the best logit over the second up to which the choice is a matter of chance.

    ``noise_max`` is the largest distance of a logit from itself in another run of the reference; both may move by it.
    """
    return 2 * noise_max


LEFT_OUT = "left_out"
"""Key of a candidate's metadata: JSON list of the last parts of names that it does not mean to have."""


@dataclass(frozen=True)
class ValueSet:
    """Tensors by name with their file's metadata; ``source`` says in messages where they come from."""

    source: str
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]

    @classmethod
    def read(cls, path: str | Path) -> ValueSet:
        """What a safetensors file holds; raises ArtifactError for any other file."""
        return cls(str(path), *read_tensors(path))


@dataclass(frozen=True)
class LogitRow:
    """Logits under one name. ``noise_rel`` is the reference's own (None if unknown) and ``decided`` whether every
    differing argmax lies within the noise; ``agrees`` sums up and is True where there is no noise to judge by."""

    name: str
    error: LogitError
    noise_rel: float | None
    decided: bool
    agrees: bool


@dataclass(frozen=True)
class LayerRow:
    """Relative error of the residual streams after each layer, worst position."""

    name: str
    rel: list[float]


@dataclass(frozen=True)
class ValueRow:
    """Any other tensor: elements that differ, and for floats the relative error and the largest distance in ulps."""

    name: str
    elements: int
    different: int
    rel: float | None
    ulps: int | None


@dataclass(frozen=True)
class Comparison:
    """All rows, the golden names the candidate lacks, and those that it left out on purpose."""

    logits: list[LogitRow]
    layers: list[LayerRow]
    values: list[ValueRow]
    missing: list[str]
    left_out: list[str]

    @property
    def agrees(self) -> bool:
        """Nothing is missing and all logits agree."""
        return not self.missing and all(row.agrees for row in self.logits)


def compare_files(candidate: str | Path, golden: str | Path) -> Comparison:
    """Compare two safetensors files of golden values or test vectors.

    Raises ArtifactError if they have no name in common, or shapes or dtypes of a name differ.
    """
    return compare_values(ValueSet.read(candidate), ValueSet.read(golden))


def compare_values(candidate: ValueSet, golden: ValueSet) -> Comparison:
    """``compare_files`` for values that are in memory already."""
    values, expected = candidate.tensors, golden.tensors
    common = [name for name in expected if name in values]
    if not common:
        raise ArtifactError(
            f"{candidate.source} and {golden.source} have no tensor in common; compare files of the same prompts"
        )
    for name in common:
        _check_alike(name, values[name], expected[name])
    details = read_summary(golden.metadata)["prompts"] if golden.metadata.get("kind") == KIND else {}
    absent = [name for name in expected if name not in values]
    left_out = [name for name in absent if name.rpartition("/")[2] in _left_out(candidate)]
    logits = [name for name in common if _is_logits(name)]
    layers = [name for name in common if name.endswith("/hidden")]
    others = [name for name in common if name not in logits and name not in layers]
    return Comparison(
        logits=[_logit_row(name, values[name], expected[name], details) for name in logits],
        layers=[_layer_row(name, values[name], expected[name]) for name in layers],
        values=[_value_row(name, values[name], expected[name]) for name in others],
        missing=[name for name in absent if name not in left_out],
        left_out=left_out,
    )


def _left_out(candidate: ValueSet) -> list[str]:
    try:
        return json.loads(candidate.metadata.get(LEFT_OUT, "[]"))
    except ValueError as error:
        raise ArtifactError(f"{candidate.source} has no list of what it leaves out ({error}); make it again") from None


def _is_logits(name: str) -> bool:
    return name.endswith("logits")


def _check_alike(name: str, candidate: Tensor, golden: Tensor) -> None:
    if candidate.shape != golden.shape or candidate.dtype != golden.dtype:
        raise ArtifactError(
            f"{name} is {candidate.dtype} {list(candidate.shape)} in the candidate and {golden.dtype} "
            f"{list(golden.shape)} in the golden file; run both on the same prompts and settings"
        )


def _logit_row(name: str, candidate: Tensor, golden: Tensor, details: Mapping[str, dict]) -> LogitRow:
    error = logit_error(candidate, golden)
    detail = details.get(name.rpartition("/")[0])
    if detail is None:
        return LogitRow(name, error, None, error.argmax == 1, True)
    # One rerun samples the noise of one prompt; the worst of all prompts is the better estimate for each.
    noise_rel, noise_max = (max(other["noise"][key] for other in details.values()) for key in ("rel", "max"))
    differs = (candidate.argmax(-1) != golden.argmax(-1)).tolist()
    narrow = [margin <= margin_of_chance(noise_max) for margin in detail["margins"]]
    decided = all(tie for tie, differ in zip(narrow, differs, strict=True) if differ)
    agrees = decided and error.rel <= max(NOISE_FACTOR * noise_rel, LEAST_NOISE)
    return LogitRow(name, error, noise_rel, decided, agrees)


def _layer_row(name: str, candidate: Tensor, golden: Tensor) -> LayerRow:
    """Streams are [positions, L, n, d]."""
    positions, layers = golden.shape[:2]
    worst = [
        max(relative_error(candidate[position, layer], golden[position, layer]) for position in range(positions))
        for layer in range(layers)
    ]
    return LayerRow(name, worst)


def _value_row(name: str, candidate: Tensor, golden: Tensor) -> ValueRow:
    different = int((candidate != golden).sum())
    if not golden.is_floating_point():
        return ValueRow(name, golden.numel(), different, None, None)
    ulps = int(ulp_distance(candidate, golden).max()) if golden.numel() else 0
    return ValueRow(name, golden.numel(), different, relative_error(candidate, golden), ulps)
