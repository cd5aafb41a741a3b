from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.neff.header import HEADER_SIZE, SUPPORTED_FEATURES, NeffHeader, digest_of
from hypothesis import given
from hypothesis import strategies as st

HEADER = NeffHeader(data_size=7, digest=bytes(range(16)), name="decode", build_version="2.27.5334.0")
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


def texts(size: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=size // 4)


@st.composite
def headers(draw: st.DrawFn) -> NeffHeader:
    package = draw(st.sampled_from([1, 2]))
    major = draw(st.integers(0, 2))
    bits = draw(U64)
    return NeffHeader(
        data_size=draw(st.integers(1, 2**64 - 1)),
        digest=draw(st.binary(min_size=32 if package == 1 else 16, max_size=32 if package == 1 else 16)),
        name=draw(texts(256)),
        uuid=draw(st.binary(min_size=16, max_size=16)),
        pkg_version=package,
        version=(major, draw(U64)),
        build_version=draw(texts(128)),
        num_tpb=draw(U32),
        requested_tpb_count=draw(U32),
        tpb_per_node=draw(st.binary(min_size=64, max_size=64)),
        feature_bits=bits & SUPPORTED_FEATURES if major == 2 else bits,
        lnc_size=draw(st.integers(0, 2)),
    )


@given(headers())
def test_what_is_packed_is_parsed(header):
    packed = header.pack()
    assert len(packed) == HEADER_SIZE
    assert NeffHeader.parse(packed) == header
    assert NeffHeader.parse(packed + b"the archive") == header


def test_fields_lie_where_the_documented_struct_puts_them():
    header = replace(
        HEADER,
        version=(2, 5),
        num_tpb=3,
        uuid=b"u" * 16,
        requested_tpb_count=4,
        tpb_per_node=b"n" * 64,
        feature_bits=0x1400,
        lnc_size=2,
    )
    packed = header.pack()
    assert struct.unpack_from("<5Q", packed) == (2, 1024, 7, 2, 5)
    assert packed[40:52] == b"2.27.5334.0\0"
    assert struct.unpack_from("<I", packed, 168) == (3,)
    assert packed[172:188] == bytes(range(16))
    assert packed[204:220] == b"u" * 16
    assert packed[220:227] == b"decode\0"
    assert struct.unpack_from("<I", packed, 476) == (4,)
    assert packed[480:544] == b"n" * 64
    assert struct.unpack_from("<QI", packed, 544) == (0x1400, 2)
    assert not any(packed[556:])


def test_a_header_cut_short_is_refused():
    for length in range(HEADER_SIZE):
        with pytest.raises(ArtifactError, match=f"NEFF of {length} bytes"):
            NeffHeader.parse(HEADER.pack()[:length])


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<Q", 0, "pkg_version is 0, expected 1"),
        (0, "<Q", 3, "pkg_version is 3, expected 1"),
        (8, "<Q", 1025, "header_size is 1025, expected 1024"),
        (16, "<Q", 0, "data_size is 0"),
        (24, "<Q", 3, r"version is '3\.0', expected at most 2\.x; it comes from a newer compiler"),
        (544, "<Q", 1 << 27, "feature_bits is '0x8000000', expected none of 0x8000000; it comes from a newer"),
        (552, "<I", 3, "lnc_size is 3, expected 1 or 2"),
    ],
    ids=["package-0", "package-3", "header-size", "no-data", "major", "feature", "lnc"],
)
def test_an_unknown_value_is_refused_by_name(offset, layout, value, message):
    packed = bytearray(HEADER.pack())
    struct.pack_into(layout, packed, offset, value)
    with pytest.raises(ArtifactError, match=message):
        NeffHeader.parse(bytes(packed))


def test_feature_bits_mean_nothing_before_version_2():
    header = replace(HEADER, version=(1, 0), feature_bits=1 << 40)
    assert NeffHeader.parse(header.pack()) == header


def test_a_file_older_than_the_field_is_for_one_core():
    assert replace(HEADER, lnc_size=0).logical_core_size == 1
    assert replace(HEADER, lnc_size=2).logical_core_size == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pkg_version": 3}, "pkg_version"),
        ({"version": (3, 0)}, "version"),
        ({"digest": bytes(32)}, "digest .* expected 16 bytes"),
        ({"uuid": b""}, "uuid .* expected 16 bytes"),
        ({"tpb_per_node": b""}, "tpb_per_node .* expected 64 bytes"),
        ({"name": "n" * 257}, "name .* at most 256 bytes"),
        ({"name": "a\0b"}, "name .* without NUL"),
        ({"build_version": "é" * 65}, "build_version .* at most 128 bytes"),
        ({"num_tpb": 2**32}, "does not fit"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_value_that_does_not_fit_is_not_written(change, message):
    with pytest.raises(ArtifactError, match=message):
        replace(HEADER, **change).pack()


@pytest.mark.parametrize(("package", "digest"), [(1, hashlib.sha256), (2, hashlib.md5)], ids=["sha256", "md5"])
def test_the_package_version_chooses_the_hash(package, digest):
    assert digest_of(b"archive", package) == digest(b"archive").digest()
    header = replace(HEADER, pkg_version=package, digest=digest(b"archive").digest())
    assert header.matches(b"archive")
    assert not header.matches(b"archivf")
