from __future__ import annotations

import json

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.plan import DecodePlan, digest

ROWS = 32
"""Rows of each cache, without the one for padding."""


def test_a_plan_survives_json(programs):
    plan, _ = programs
    assert DecodePlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_plan_names_its_programs_by_digest(programs):
    plan, artifacts = programs
    assert [replay.batch_size for replay in plan.replays] == [6, 4, 2, 1]
    for region in (region for replay in plan.replays for region in replay.regions):
        artifact = artifacts[region.artifact]
        assert digest(artifact) == region.artifact
        assert [(one.carrier, one.shape) for one in region.inputs] == [(t.dtype, t.shape) for t in artifact.inputs]
        assert len(region.outputs) == len(artifact.outputs)
        assert region.aliases == artifact.aliases


def test_inputs_are_bound_by_kind(programs):
    kinds = {binding.name: binding.kind for binding in programs[0].replays[0].bindings}
    assert kinds == {
        "embed": "weight",
        "head": "weight",
        "keys": "kv",
        "sums": "kv",
        "tokens": "slot",
        "row": "slot",
        "history": "slot",
        "scale": "slot",
    }


def test_an_updated_cache_is_an_output_under_its_own_name(programs):
    for replay in programs[0].replays:
        updated = [region.outputs[output] for region in replay.regions for output in region.aliases]
        assert sorted(updated) == ["keys", "sums"]


def test_a_value_that_nothing_made_is_refused(programs):
    data = programs[0].to_json()
    data["replays"][0]["results"][0] = "nowhere"
    with pytest.raises(ArtifactError, match="no region makes the results"):
        DecodePlan.from_json(data)
    data = programs[0].to_json()
    data["replays"][0]["regions"][0]["inputs"][0] |= {"kind": "value", "name": "nowhere"}
    with pytest.raises(ArtifactError, match="'nowhere'\\] before they are made"):
        DecodePlan.from_json(data)


def with_rows(plan: DecodePlan, *rows: list[int] | None) -> dict:
    """The plan as JSON; the caches of its first batch sizes are taken in these rows."""
    data = plan.to_json()
    for replay, part in zip(data["replays"], rows, strict=False):
        for binding in (binding for region in replay["regions"] for binding in region["inputs"]):
            if binding["kind"] == "kv":
                binding["rows"] = part
    return data


def test_rows_of_a_cache_survive_json(programs):
    plan = DecodePlan.from_json(with_rows(programs[0], *[[4, 8]] * 4))
    assert {one.rows for replay in plan.replays for one in replay.bindings if one.kind == "kv"} == {(4, 8)}
    assert DecodePlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_rows_that_overlap_are_refused(programs):
    assert DecodePlan.from_json(with_rows(programs[0], [0, 4], [4, 8], [12, 21], [12, 21]))
    with pytest.raises(ArtifactError, match="programs take rows 4 to 12 and rows from 11 on of 'keys'"):
        DecodePlan.from_json(with_rows(programs[0], [0, 4], [4, 8], [11, 2], [0, 4]))
    for rows in ([0, 4], [0, ROWS + 1]):
        with pytest.raises(ArtifactError, match="'keys'"):
            DecodePlan.from_json(with_rows(programs[0], rows))


@pytest.mark.parametrize("change", [{"schema": 0}, {"slots": None}, {"replays": [{}]}, {"slots": [{"name": "x"}]}])
def test_damaged_plans_are_refused(programs, change):
    with pytest.raises(ArtifactError, match="compile again"):
        DecodePlan.from_json({**programs[0].to_json(), **change})
