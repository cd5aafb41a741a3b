from __future__ import annotations

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore

PARTS = {"target": "host", "options": {"numerics": "exact", "pad": True}, "inputs": [["f32", 2], ["i32", 1]]}
TEXTS = {"graph": "%0 = x\n%1 = add %0 %0\n%2 = output"}


@pytest.mark.parametrize(
    ("parts", "texts", "expected"),
    [
        ({"target": "trn2"}, {}, ['target: "host" there, "trn2" here']),
        ({"options": {"numerics": "fast", "pad": True}}, {}, ['options, numerics: "exact" there, "fast" here']),
        ({"options": {"numerics": "exact"}}, {}, ["options, pad: true there, nothing here"]),
        ({"inputs": [["f32", 4], ["i32", 1]]}, {}, ["inputs 0 1: 2 there, 4 here"]),
        ({"inputs": [["f32", 2]]}, {}, ['inputs: [["f32",2],["i32",1]] there, [["f32",2]] here']),
        ({"new": 1}, {}, ["new: nothing there, 1 here"]),
        ({}, {"graph": "%0 = x\n%1 = sub %0 %0"}, ["graph, line 2: %1 = add %0 %0 there, %1 = sub %0 %0 here"]),
        ({}, {"graph": "%0 = x\n%1 = add %0 %0"}, ["graph, line 3: %2 = output there, nothing here"]),
        ({}, {"other": ""}, ["other: only here, or it cannot be read"]),
        ({"target": "x" * 300}, {}, [f'target: "host" there, "{"x" * 116}... here']),
    ],
)
def test_a_difference_in_words(
    store: ArtifactStore, parts: dict[str, object], texts: dict[str, str], expected: list[str]
) -> None:
    stored = ArtifactKey("program", PARTS, TEXTS)
    store.put(stored, {})
    first, *rest = store.explain(ArtifactKey("program", PARTS | parts, TEXTS | texts))
    assert first == f"the nearest entry is {stored.digest[:12]}"
    assert rest == expected


def test_the_entry_with_the_fewest_differences_is_compared(store: ArtifactStore) -> None:
    far = ArtifactKey("program", PARTS | {"target": "trn2", "options": {}}, TEXTS)
    near = ArtifactKey("program", PARTS | {"target": "trn2"}, TEXTS)
    for key in far, near, ArtifactKey("plan", PARTS, TEXTS):
        store.put(key, {})
    assert store.explain(ArtifactKey("program", PARTS, TEXTS))[0] == f"the nearest entry is {near.digest[:12]}"


def test_an_empty_store_and_an_entry_that_is_there(store: ArtifactStore) -> None:
    key = ArtifactKey("program", PARTS, TEXTS)
    assert store.explain(key) == [f"the store in {store.local.root} has no other entry of kind program"]
    store.put(key, {})
    assert store.explain(key) == [f"entry {key.digest} has this key"]


def test_a_text_that_cannot_be_read_does_not_stop_it(store: ArtifactStore) -> None:
    directory = store.put(ArtifactKey("program", PARTS, TEXTS), {}).directory
    assert directory is not None
    (directory / "key-graph.txt").write_bytes(b"\xff")
    assert store.explain(ArtifactKey("program", PARTS, {"graph": ""}))[1:] == ["graph: only here, or it cannot be read"]


def test_an_entry_is_compared_with_the_nearest_other_one(store: ArtifactStore) -> None:
    one, other = ArtifactKey("program", PARTS, TEXTS), ArtifactKey("program", PARTS | {"target": "trn2"}, {"graph": ""})
    store.put(one, {})
    assert store.explain_entry(one.digest[:8]) == [
        f"the store in {store.local.root} has no other entry of kind program"
    ]
    store.put(other, {})
    assert store.explain_entry(one.digest) == [
        f"the nearest entry is {other.digest[:12]}",
        'target: "trn2" there, "host" here',
        "graph, line 1: nothing there, %0 = x here",
    ]
    for digest, count in ("", 2), ("x", 0):
        with pytest.raises(ArtifactError, match=f"{count} entries"):
            store.explain_entry(digest)
