from __future__ import annotations

import pytest
from deepinfer_neuron.explain.rows import ROW_LIMIT, arrange_rows, split_name
from explained_steps import make_step


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layers.3.attention", ("layers.3", "attention")),
        ("model.layers.3.mlp.experts.7", ("model.layers.3.mlp.experts.7", "model.layers.3.mlp.experts.7")),
        ("layers.3.attention+layers.3.experts", ("layers.3", "attention+layers.3.experts")),
        ("layers.3", ("layers.3", "layers.3")),
        ("embed", (None, "embed")),
        ("a.b", (None, "a.b")),
        ("", (None, "")),
    ],
)
def test_a_name_ends_its_layer_with_its_last_number(name, expected):
    assert split_name(name) == expected


def test_a_layer_is_a_row_and_order_is_kept(layered_step):
    rows = arrange_rows(layered_step.regions)
    assert [row.name for row in rows] == ["", "layers.0", "layers.1", ""]
    assert [row.labels for row in rows] == [("embed",), ("attention", "experts"), ("attention", "experts"), ("end",)]
    assert [region for row in rows for region in row.regions] == list(layered_step.regions)


def test_names_without_numbers_are_rows_of_their_own_and_a_layer_that_comes_again_is_a_new_row():
    step = make_step(["x", "x", "layers.0.a", "layers.1.a", "layers.0.b"], [1, 1, 2, 2, 3])
    assert [len(row.regions) for row in arrange_rows(step.regions)] == [1, 1, 1, 1, 1]


def test_a_wide_layer_goes_on_in_the_next_row():
    step = make_step([f"layers.0.part{'x' * index}" for index in range(2 * ROW_LIMIT + 1)], [1] * (2 * ROW_LIMIT + 1))
    assert [len(row.regions) for row in arrange_rows(step.regions)] == [ROW_LIMIT, ROW_LIMIT, 1]
