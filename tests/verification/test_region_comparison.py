import pytest
import torch
from deepinfer_neuron.compiler.lowering.registry import LOWERINGS
from deepinfer_neuron.compiler.regions.canonical import canonical_digest
from deepinfer_neuron.compiler.regions.cut import Rows, StepInput
from deepinfer_neuron.verification.region_comparison import compare_regions
from fed_steps import trace_call

aten = torch.ops.aten
NAMES = ["half 0", "half 1", "end"]


def test_exact_regions_are_within_the_bar_and_only_written_rows_count(step):
    before = [tensor.clone() for tensor in step.inputs]
    comparisons = compare_regions(step, "exact")
    assert [one.region for one in comparisons] == NAMES
    assert all(one.agrees and one.within_bar and one.pieces == () for one in comparisons)
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(step.inputs, before, strict=True))
    written, streams = 3 * 64, 3 * 4 * 64
    assert [one.elements for one in comparisons] == [written + streams, written + streams, 3 * 64]


def test_a_wrong_lowering_is_beyond_the_bar_and_its_piece_is_named(step, monkeypatch):
    right = LOWERINGS[aten.sub.Tensor]
    monkeypatch.setitem(
        LOWERINGS, aten.sub.Tensor, lambda emitter, result, a, b, **keywords: right(emitter, result, b, a, **keywords)
    )
    first, second, rest = compare_regions(step, "exact")
    assert rest.agrees
    for one in (first, second):
        assert not one.agrees
        assert not one.within_bar
        assert one.mismatched > 100
        assert any("sinkhorn" in piece.region and "conftest.py" in piece.region for piece in one.pieces)


def test_an_error_of_one_bfloat16_ulp_in_a_cache_row_is_beyond_the_bar(step, monkeypatch):
    right = LOWERINGS[aten.index_put.default]
    add = LOWERINGS[aten.add.Tensor]

    def off(emitter, result, root, indices, rows):
        """The root carries bfloat16 bits as int16: one more is the next value."""
        return add(emitter, result, right(emitter, result, root, indices, rows), 1)

    monkeypatch.setitem(LOWERINGS, aten.index_put.default, off)
    first, _, rest = compare_regions(step, "exact")
    assert not first.within_bar
    assert first.max_ulps >= 1
    assert first.mismatched >= 12 * 64
    assert rest.within_bar


def test_progress_counts_regions_in_fast_numerics_too(step):
    seen = []
    comparisons = compare_regions(step, "fast", lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert all(one.different < one.elements for one in comparisons)


@pytest.fixture
def layers_step(layers, layers_inputs):
    return trace_call(layers, layers_inputs)


def test_regions_take_the_rows_of_a_cache_that_they_touch_and_only_written_ones_count(layers_step):
    before = [tensor.clone() for tensor in layers_step.inputs]
    first, second, _ = layers_step.cut.regions
    places = [[one for one in region.inputs if isinstance(one, StepInput) and one.rows] for region in (first, second)]
    assert [one.rows for (one,) in places] == [Rows(0, 1), Rows(1, 1)]
    assert canonical_digest(first) == canonical_digest(second)
    comparisons = compare_regions(layers_step, "exact")
    assert [(one.elements, one.different) for one in comparisons] == [(2 * 3 * 64, 0), (2 * 3 * 64, 0), (3 * 64, 0)]
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(layers_step.inputs, before, strict=True))


def test_an_error_in_the_rows_that_a_region_takes_is_found(layers_step, monkeypatch):
    right, add = LOWERINGS[aten.index_put.default], LOWERINGS[aten.add.Tensor]

    def off(emitter, result, root, indices, rows):
        """Two bfloat16 ulps more, as int16 bits."""
        return add(emitter, result, right(emitter, result, root, indices, rows), 2)

    monkeypatch.setitem(LOWERINGS, aten.index_put.default, off)
    first, second, _ = compare_regions(layers_step, "exact")
    for one in (first, second):
        assert not one.within_bar
        assert one.max_ulps >= 2
        assert one.mismatched >= 12 * 64
