from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.store.canonical_json import canonical_json
from deepinfer_neuron.runtime.store.key import ArtifactKey
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PARTS = st.dictionaries(st.text(min_size=1), VALUES, max_size=4)
DIGEST_IN_A_PROCESS = """
import json, sys
from deepinfer_neuron.runtime.store.key import ArtifactKey
parts = json.load(sys.stdin)
print(ArtifactKey("plan", {name: parts[name] for name in set(parts)}).digest)
"""


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return tuple(map(reordered, value)) if isinstance(value, list) else value


@given(PARTS)
def test_neither_order_of_mappings_nor_tuples_for_lists_nor_canonical_json_change_the_digest(
    parts: dict[str, Any],
) -> None:
    assert ArtifactKey("plan", reordered(parts)).digest == ArtifactKey("plan", parts).digest
    text = canonical_json(parts)
    assert canonical_json(json.loads(text)) == text


@given(PARTS, PARTS)
def test_different_parts_have_different_digests(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = canonical_json(one) == canonical_json(other)
    assert (ArtifactKey("plan", one).digest == ArtifactKey("plan", other).digest) == same


@pytest.mark.parametrize(
    "other",
    [
        ArtifactKey("program", {"a": 1}, {"t": "x"}),
        ArtifactKey("plan", {"a": 2}, {"t": "x"}),
        ArtifactKey("plan", {"a": 1.0}, {"t": "x"}),
        ArtifactKey("plan", {"a": True}, {"t": "x"}),
        ArtifactKey("plan", {"b": 1}, {"t": "x"}),
        ArtifactKey("plan", {"a": 1}, {"t": "y"}),
        ArtifactKey("plan", {"a": 1}, {"u": "x"}),
        ArtifactKey("plan", {"a": 1}),
    ],
)
def test_every_part_counts(other: ArtifactKey) -> None:
    assert other.digest != ArtifactKey("plan", {"a": 1}, {"t": "x"}).digest


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {1, 2}, object(), b"bytes"])
def test_values_without_an_exact_text_are_refused(value: Any) -> None:
    with pytest.raises(ArtifactError):
        _ = ArtifactKey("plan", {"a": value}).digest


def test_processes_with_other_hash_seeds_agree() -> None:
    parts = {f"part {number}": {"x": number, "y": [str(number)]} for number in range(20)}
    expected = ArtifactKey("plan", parts).digest
    for seed in "1", "2":
        result = subprocess.run(
            [sys.executable, "-c", DIGEST_IN_A_PROCESS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            input=json.dumps(parts),
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == expected
