from __future__ import annotations

import json

import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.runtime.slots import ZERO, PaddingPolicy, SlotBuffers, SlotSpec

SPECS = (
    SlotSpec("tokens", torch.int64, padding=ZERO, index=True),
    SlotSpec("rows", torch.int32, (3,), PaddingPolicy.fill(99), index=True, maximum=99),
    SlotSpec("scale", torch.bfloat16, (2,)),
)


def inputs_of(live: int, fill: int = 1) -> dict[str, torch.Tensor]:
    return {spec.name: torch.full((live, *spec.row_shape), fill, dtype=spec.dtype) for spec in SPECS}


def test_an_index_slot_without_padding_is_refused_at_construction():
    with pytest.raises(InputError, match="'positions' holds indices but declares no padding"):
        SlotSpec("positions", torch.int64, index=True)


def test_an_index_slot_must_be_an_integer():
    with pytest.raises(InputError, match="must be an integer"):
        SlotSpec("positions", torch.float32, padding=ZERO, index=True)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_slot_survives_json(spec):
    assert SlotSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_load_copies_live_rows_and_resets_the_rest():
    buffers = SlotBuffers(SPECS, 8)
    for spec in SPECS:
        buffers.view(spec.name, 8).fill_(77)
    buffers.load(inputs_of(3), 3, 4)
    for spec in SPECS:
        view = buffers.view(spec.name, 8)
        assert (view[:3] == 1).all()
        assert (view[3:4] == spec.pad_value).all()
        assert (view[4:] == 77).all()


def test_views_of_all_sizes_share_one_address():
    buffers = SlotBuffers(SPECS, 8)
    assert {buffers.view("rows", size).data_ptr() for size in (1, 4, 8)} == {buffers.view("rows", 8).data_ptr()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, "missing input 'rows'"),
        ({"rows": torch.zeros(2, 3)}, r"input 'rows' is torch.float32 \[2, 3\]: expected torch.int32 \[2, 3\]"),
        ({"rows": torch.zeros(1, 3, dtype=torch.int32)}, r"expected torch.int32 \[2, 3\]"),
        ({"rows": torch.zeros(2, 4, dtype=torch.int32)}, r"\[2, 4\]: expected torch.int32 \[2, 3\]"),
        ({"extra": torch.zeros(2)}, "unknown input 'extra'"),
        ({"scale": 1.0}, "input 'scale' is a float"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    buffers = SlotBuffers(SPECS, 4)
    with pytest.raises(InputError, match=message):
        buffers.check({**inputs_of(2), **change}, 2)


def test_a_missing_input_is_named():
    inputs = inputs_of(2)
    del inputs["rows"]
    with pytest.raises(InputError, match="missing input 'rows'"):
        SlotBuffers(SPECS, 4).check(inputs, 2)


def test_an_empty_batch_is_refused():
    buffers = SlotBuffers(SPECS, 4)
    with pytest.raises(InputError, match="the batch is empty"):
        buffers.check(inputs_of(0), buffers.live_rows(inputs_of(0)))


def test_inputs_without_a_batch_dimension_are_refused():
    with pytest.raises(InputError, match="'tokens'"):
        SlotBuffers(SPECS, 4).live_rows({"tokens": torch.tensor(3)})


def test_slot_names_are_unique_and_there_is_one():
    with pytest.raises(InputError, match="share a name"):
        SlotBuffers((SPECS[0], SPECS[0]), 2)
    with pytest.raises(InputError, match="at least one slot"):
        SlotBuffers((), 2)


@pytest.mark.parametrize(
    ("maximum", "padding", "dtype", "message"),
    [
        (9, 10, torch.int32, r"values in \[0, 9\] and pads with 10"),
        (9, -1, torch.int32, r"values in \[0, 9\] and pads with -1"),
        (9, 0, torch.float32, "declares a maximum, which integers have"),
    ],
)
def test_a_maximum_that_the_slot_cannot_keep_is_refused(maximum, padding, dtype, message):
    with pytest.raises(InputError, match=message):
        SlotSpec("rows", dtype, padding=PaddingPolicy.fill(padding), maximum=maximum)


def test_a_narrower_carrier_holds_the_same_values():
    buffers = SlotBuffers(SPECS, 4, {"tokens": torch.int32})
    buffers.load(inputs_of(2, fill=7), 2, 4)
    assert buffers.carrier("tokens") is buffers.view("tokens", 4).dtype is torch.int32
    assert buffers.view("tokens", 4).tolist() == [7, 7, 0, 0]
    assert buffers.carrier("rows") is torch.int32


def test_a_carrier_of_equal_width_holds_the_same_bits():
    buffers = SlotBuffers(SPECS, 4, {"scale": torch.int16})
    buffers.load(inputs_of(2, fill=1), 2, 4)
    assert buffers.view("scale", 2).dtype is torch.int16
    assert (buffers.view("scale", 2).view(torch.bfloat16) == 1).all()
