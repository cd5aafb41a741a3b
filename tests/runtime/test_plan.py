from __future__ import annotations

import json

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.plan import DecodePlan, digest


def test_a_plan_survives_json(programs):
    plan, _ = programs
    assert DecodePlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_plan_names_its_programs_by_digest(programs):
    plan, artifacts = programs
    assert [replay.batch_size for replay in plan.replays] == [6, 4, 2, 1]
    for replay in plan.replays:
        assert digest(artifacts[replay.artifact]) == replay.artifact
        assert len(replay.inputs) == len(artifacts[replay.artifact].inputs)


def test_inputs_are_bound_by_kind(programs):
    kinds = {binding.name: binding.kind for binding in programs[0].replays[0].inputs}
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


@pytest.mark.parametrize("change", [{"schema": 0}, {"slots": None}, {"replays": [{}]}, {"slots": [{"name": "x"}]}])
def test_damaged_plans_are_refused(programs, change):
    with pytest.raises(ArtifactError, match="compile again"):
        DecodePlan.from_json({**programs[0].to_json(), **change})
