"""Fields of protocol buffers survive reading and writing, and damage is named."""

from __future__ import annotations

import pytest
from deepinfer_neuron.compiler.hlo.wire import (
    FIXED32,
    FIXED64,
    Field,
    message,
    pack,
    read_fields,
    unpack,
    varint,
    write_fields,
)
from deepinfer_neuron.errors import ArtifactError
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(1, 2**29 - 1)
FIELDS = st.one_of(
    st.builds(varint, NUMBERS, st.integers(0, 2**64 - 1)),
    st.builds(message, NUMBERS, st.binary(max_size=200)),
    st.builds(Field, NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    st.builds(Field, NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
)


@given(st.lists(FIELDS))
def test_fields_are_read_as_they_were_written(fields):
    assert read_fields(write_fields(fields)) == fields


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_packed_numbers_are_read_as_they_were_written(numbers):
    assert unpack(pack(numbers)) == numbers


def test_the_bytes_are_those_of_the_documentation():
    """Encoding: a field 1 of 150, and a field 2 of "testing"."""
    assert write_fields([varint(1, 150)]) == bytes.fromhex("089601")
    assert write_fields([message(2, b"testing")]) == bytes.fromhex("120774657374696e67")


@pytest.mark.parametrize("damaged", ["08", "0896", "1207746573", "0b", "08ffffffffffffffffffffff01"])
def test_damage_is_named(damaged):
    with pytest.raises(ArtifactError, match="no protocol buffer"):
        read_fields(bytes.fromhex(damaged))


def test_a_number_is_no_message():
    with pytest.raises(ArtifactError, match="field 3 of a protocol buffer is a number"):
        _ = varint(3, 1).content
