"""A result as JSON, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..search.result import BisectResult
from ..subjects.subject import Candidate
from .facts import operations, versions
from .recipe import Recipe
from .repro import ReproRun

SCHEMA = 1


def result_json(result: BisectResult, recipe: Recipe, run: ReproRun | None, files: Sequence[str]) -> dict[str, Any]:
    """Everything but the programs themselves, which are the ``files`` beside it; of the items those that were kept."""
    return {
        "schema": SCHEMA,
        "subject": result.subject,
        "compiler": result.compiler.name,
        "version": result.compiler.fingerprint,
        "command": list(recipe.command),
        "environment": dict(recipe.environment),
        "format": recipe.format,
        "match": recipe.match,
        "versions": versions(),
        "signature": asdict(result.failure.signature),
        "first": asdict(result.failure.first),
        "last": asdict(result.failure.last),
        "operations": operations(result),
        "kept": [{"index": index, **asdict(result.reduction.items[index])} for index in result.reduction.kept],
        "minimal": _candidate(result.reduction.minimal),
        "smallest_module": _candidate(result.reduction.smallest_module),
        "good": None if result.evidence.good is None else _candidate(result.evidence.good),
        "simplifications": list(result.reduction.simplifications),
        "removals": list(result.evidence.removals),
        "is_minimal": result.evidence.is_minimal,
        "complete": result.complete,
        "also_seen": [
            {"signature": asdict(one.signature), "times": one.times, **_candidate(one.candidate)}
            for one in result.evidence.others
        ],
        "survey": [
            {"items": list(one.items), "text": one.example.text, "ending": one.text, "fails": one.fails}
            for one in result.evidence.survey
        ],
        "introduced_by": result.evidence.introduced_by,
        "criterion": result.miscompilation.criterion,
        "first_wrong": list(result.miscompilation.first_wrong),
        "stages": [asdict(stage) for stage in result.cost.stages],
        "history": [asdict(point) for point in result.cost.history],
        "probes": result.cost.probes,
        "known": result.cost.known,
        "bound": result.cost.bound,
        "seconds": result.cost.seconds,
        "repro": None if run is None else {"status": run.status, "meaning": run.meaning},
        "files": list(files),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {"size": candidate.size, "sha256": candidate.digest}
