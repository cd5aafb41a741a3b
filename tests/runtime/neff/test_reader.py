from __future__ import annotations

import gzip
import json

import pytest
from deepinfer_neuron.errors import ArtifactError, ConfigError
from deepinfer_neuron.runtime.neff.archive import Member
from deepinfer_neuron.runtime.neff.descriptor import NeffTensor
from deepinfer_neuron.runtime.neff.header import HEADER_SIZE, SUPPORTED_FEATURES
from deepinfer_neuron.runtime.neff.reader import read_neff
from deepinfer_neuron.runtime.neff.writer import make_neff, pack_archive
from hypothesis import given, settings
from hypothesis import strategies as st
from neffs import TENSORS, small_neff, with_archive

LABELS = [(32, 168), (168, 172), (188, 204), (204, 220), (220, 476), (476, 480), (480, 544), (556, 1024)]
"""Header bytes of which every value is valid: minor version and build, num_tpb, what MD5 leaves of the hash field,
uuid, name, requested_tpb_count, tpb_per_node and the padding."""


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_file_is_read_back(tmp_path):
    path = tmp_path / "model.neff"
    path.write_bytes(small_neff())
    assert list(tmp_path.iterdir()) == [path]
    neff = read_neff(path, target="trn2", logical_core_size=1)
    assert neff.header.name == "small"
    assert neff.target == "trn2"
    assert neff.tensors == TENSORS
    assert [member.name for member in neff.members] == ["kelf-a.json", "sg00/def.json", "sg00/pe.bin"]
    assert neff.members[2] == Member("sg00/pe.bin", 64, False)
    assert neff.hash_matches


@pytest.mark.parametrize("compress", [True, False], ids=["gzip", "plain"])
@pytest.mark.parametrize("pkg_version", [1, 2], ids=["sha256", "md5"])
@pytest.mark.parametrize("cores", [1, 2], ids=["lnc1", "lnc2"])
def test_every_variant_is_read_back(compress, pkg_version, cores):
    tensors = tuple(NeffTensor(f"sg{core:02}", f"in{core}", "input", core) for core in range(cores))
    arguments = {"logical_core_size": cores, "tensors": tensors, "compress": compress, "pkg_version": pkg_version}
    content = make_neff(target="trn3", **arguments)
    assert content == make_neff(target="trn3", **arguments)
    neff = read_neff(content, target="trn3", logical_core_size=cores)
    assert (neff.tensors, neff.header.pkg_version, neff.header.lnc_size) == (tensors, pkg_version, cores)


def test_every_flipped_bit_is_refused_or_a_label():
    """Flips that pass change one field of the header to another valid value; the archive has none of them."""
    content = small_neff()
    original = read_neff(content)
    valid = {bit for start, end in LABELS for bit in range(8 * start, 8 * end)}
    valid |= {8 * 544 + bit for bit in range(64) if SUPPORTED_FEATURES >> bit & 1}
    valid |= {8 * 24 + 1, 8 * 552}  # version 2 becomes 0, one core becomes a file older than the field
    passed = set()
    for bit in range(8 * len(content)):
        try:
            neff = read_neff(flipped(content, bit))
        except ArtifactError:
            continue
        passed.add(bit)
        assert (neff.members, neff.tensors, neff.target) == (original.members, original.tensors, original.target)
    assert passed == valid


def test_every_truncation_is_refused():
    content = small_neff()
    for length in range(len(content)):
        with pytest.raises(ArtifactError, match=r"NEFF in memory: .*truncated"):
            read_neff(content[:length])


@given(st.binary(max_size=3000))
def test_noise_is_refused(noise):
    with pytest.raises(ArtifactError):
        read_neff(noise)


def test_what_follows_the_archive_is_refused():
    with pytest.raises(ArtifactError, match="followed by something else"):
        read_neff(small_neff() + b"\0")


@settings(max_examples=100)
@given(st.data())
def test_damage_behind_a_good_hash_is_found_in_gzip_data(data):
    """Some bits of deflate data change nothing of what comes out; all others are found by its checksum."""
    archive = bytearray(small_neff()[HEADER_SIZE:])
    position = data.draw(st.integers(10, len(archive) - 1))
    archive[position] ^= data.draw(st.integers(1, 255))
    try:
        neff = read_neff(with_archive(bytes(archive)))
    except ArtifactError:
        return
    assert gzip.decompress(archive) == gzip.decompress(small_neff()[HEADER_SIZE:])
    assert neff.tensors == TENSORS


def test_a_wrong_hash_can_be_reported_instead():
    content = flipped(small_neff(), 8 * 172)
    with pytest.raises(ArtifactError, match="does not have the hash"):
        read_neff(content)
    assert not read_neff(content, verify_hash=False).hash_matches


def test_another_target_is_refused_with_the_flag_that_helps(tmp_path):
    path = tmp_path / "wrong.neff"
    path.write_bytes(small_neff())
    with pytest.raises(ArtifactError, match="compiled for trn2, expected trn1; compile it with --target trn1") as error:
        read_neff(path, target="trn1")
    assert str(error.value).startswith(str(path))


def test_another_logical_core_is_refused():
    with pytest.raises(ArtifactError, match="of 1 physical cores, expected 2; compile it with --lnc 2"):
        read_neff(small_neff(), logical_core_size=2)


def test_a_neutral_or_unknown_target_passes():
    assert read_neff(small_neff(target="*"), target="trn1").target == "*"
    descriptor = json.dumps({"target": "v9"}).encode()
    unknown = with_archive(pack_archive({"kelf-a.json": descriptor, "sg00/def.json": b"{}"}))
    assert read_neff(unknown, target="trn1").target is None
    silent = with_archive(pack_archive({"sg00/def.json": b"{}"}))
    assert read_neff(silent, target="trn1").target is None


@pytest.mark.parametrize(("name", "target"), [("v2", "trn1"), ("sunda", "trn1"), ("cayman", "trn2"), ("v4", "trn3")])
def test_both_names_of_a_target_are_known(name, target):
    descriptor = json.dumps({"target": name}).encode()
    neff = with_archive(pack_archive({"kelf-0.json": descriptor, "sg00/def.json": b"{}"}))
    assert read_neff(neff).target == target


def test_an_expectation_that_is_no_target_is_the_callers_mistake():
    with pytest.raises(ConfigError, match="expected one of trn1, trn2, trn3"):
        read_neff(small_neff(), target="inf1")


@pytest.mark.parametrize("graphs", [[], ["sg00", "sg01"]], ids=["none", "two"])
def test_there_is_one_subgraph_for_each_core(graphs):
    archive = pack_archive({f"{graph}/def.json": b"{}" for graph in graphs} | {"neff.json": b"{}"})
    with pytest.raises(ArtifactError, match=f"{len(graphs)} subgraphs for a logical core of 1"):
        read_neff(with_archive(archive))


def test_variables_that_are_no_inputs_or_outputs_are_left_alone():
    definition = {"var": {"SB": {"type": "state-buffer", "var_id": 1}, "x": {"type": "input", "var_id": 0, "size": 8}}}
    neff = read_neff(with_archive(pack_archive({"sg00/def.json": json.dumps(definition).encode()})))
    assert neff.tensors == (NeffTensor("sg00", "x", "input", 8),)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (b"", "no JSON"),
        (b"[]", "no JSON object"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"var": []}', "'var' is no object"),
        (b'{"var": {"x": {"type": "input"}}}', "input 'x' has size None"),
        (b'{"var": {"x": {"type": "output", "size": -1}}}', "output 'x' has size -1"),
        (b'{"var": {"x": {"type": "output", "size": true}}}', "output 'x' has size True"),
    ],
    ids=["empty", "list", "bytes", "deep", "var", "no-size", "negative", "boolean"],
)
def test_a_malformed_definition_is_refused(definition, message):
    with pytest.raises(ArtifactError, match=rf"sg00/def\.json: {message}"):
        read_neff(with_archive(pack_archive({"sg00/def.json": definition})))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": {"kelf-a.json": b""}}, "written by make_neff"),
        ({"tensors": [NeffTensor("sg01", "x", "input", 1)]}, "tensors of subgraphs"),
        ({"feature_bits": 1 << 30}, "feature_bits"),
    ],
    ids=["clash", "subgraph", "feature"],
)
def test_what_the_format_cannot_hold_is_not_written(changes, message):
    with pytest.raises(ArtifactError, match=message):
        small_neff(**changes)


@pytest.mark.parametrize("changes", [{"target": "inf1"}, {"logical_core_size": 0}, {"logical_core_size": 3}], ids=str)
def test_a_device_that_is_not_known_is_not_written_for(changes):
    with pytest.raises(ConfigError, match="expected one of trn1, trn2, trn3 or"):
        small_neff(**changes)
