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
        "compiler": result.compiler,
        "version": result.version,
        "command": list(recipe.command),
        "environment": dict(recipe.environment),
        "format": recipe.format,
        "match": recipe.match,
        "versions": versions(),
        "signature": asdict(result.signature),
        "first": asdict(result.first),
        "last": asdict(result.last),
        "operations": operations(result),
        "kept": [{"index": index, **asdict(result.items[index])} for index in result.kept],
        "minimal": _candidate(result.minimal),
        "smallest_module": _candidate(result.smallest_module),
        "good": None if result.good is None else _candidate(result.good),
        "simplifications": list(result.simplifications),
        "removals": list(result.removals),
        "is_minimal": result.is_minimal,
        "complete": result.complete,
        "also_seen": [
            {"signature": asdict(one.signature), "times": one.times, **_candidate(one.candidate)}
            for one in result.others
        ],
        "survey": [
            {"items": list(one.items), "text": one.example.text, "ending": one.text, "fails": one.fails}
            for one in result.survey
        ],
        "introduced_by": result.introduced_by,
        "criterion": result.criterion,
        "first_wrong": list(result.first_wrong),
        "stages": [asdict(stage) for stage in result.stages],
        "history": [asdict(point) for point in result.history],
        "probes": result.probes,
        "known": result.known,
        "bound": result.bound,
        "seconds": result.seconds,
        "repro": None if run is None else {"status": run.status, "meaning": run.meaning},
        "files": list(files),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {"size": candidate.size, "sha256": candidate.digest}
