from __future__ import annotations

import io
import tarfile

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.neff.archive import ArchiveLimits, Member, read_archive
from deepinfer_neuron.runtime.neff.writer import pack_archive
from hypothesis import given, settings
from hypothesis import strategies as st
from neffs import packed, tar_file, tar_of

NAMES = st.lists(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_characters="/\\.:\x7f"), min_size=1),
    max_size=3,
)


def everything(name: str) -> bool:
    return True


@pytest.mark.parametrize("compress", [True, False], ids=["gzip", "plain"])
@pytest.mark.parametrize("dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@settings(max_examples=60)
@given(files=st.dictionaries(NAMES.filter(len).map("/".join), st.binary(max_size=2000), max_size=6))
def test_members_are_listed_as_tar_wrote_them(compress, dialect, files):
    archive = tar_of(*(tar_file(name, content) for name, content in files.items()), dialect=dialect)
    found = read_archive(packed(archive) if compress else archive, everything)
    assert found.contents == files
    assert found.members == tuple(Member(name, len(content), False) for name, content in files.items())


@pytest.mark.parametrize("dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_directories(dialect):
    name = "sg00/" + "d" * 90 + "/" + "n" * 90
    archive = tar_of(tar_file("./sg00/", type=tarfile.DIRTYPE), tar_file(name, b"x"), dialect=dialect)
    assert read_archive(archive).members == (Member("sg00", 0, True), Member(name, 1, False))


def test_a_colon_in_a_name_is_no_drive():
    assert read_archive(pack_archive({"sg00/x:0.npy": b"1", "x:0.npy": b"2"}), everything).contents.keys() == {
        "sg00/x:0.npy",
        "x:0.npy",
    }


def test_the_root_directory_is_no_member():
    assert read_archive(tar_of(tar_file("./", type=tarfile.DIRTYPE), tar_file("./a"))).members == (
        Member("a", 0, False),
    )


def test_sizes_beyond_octal_digits_are_read():
    member, _ = tar_file("big", b"")
    member.size = 9 << 30
    header = member.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(ArtifactError, match="content of big is cut short"):
        read_archive(header + bytes(4096))


def test_only_wanted_content_is_kept():
    archive = pack_archive({"sg00/def.json": b"{}", "sg00/pe.bin": b"12"})
    assert read_archive(archive, lambda name: name.endswith(".json")).contents == {"sg00/def.json": b"{}"}


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../up", "a/../b", "a//b", "..", "c:/x", "a\\b", "bell\a", "a/..", "a/../", ".", "//", "\x7f"],
    ids=lambda name: repr(name).replace("/", "|"),
)
@pytest.mark.parametrize("dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_unsafe_names_are_refused(name, dialect):
    with pytest.raises(ArtifactError, match="is unsafe"):
        read_archive(tar_of(tar_file(name, b"x"), dialect=dialect))


def test_an_unsafe_name_in_an_extended_header_is_refused():
    with pytest.raises(ArtifactError, match="is unsafe"):
        read_archive(tar_of(tar_file("good", b"x", pax_headers={"path": "../" + "n" * 200})))
    with pytest.raises(ArtifactError, match="is unsafe"):
        read_archive(tar_of(tar_file("good", b"x", pax_headers={"path": "a\0b"})))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
    ids=["symlink", "hardlink", "character", "block", "fifo", "sparse"],
)
def test_links_and_devices_are_refused(kind):
    with pytest.raises(ArtifactError, match="expected a file or a directory"):
        read_archive(tar_of(tar_file("trap", type=kind, linkname="sg00/def.json")))


@pytest.mark.parametrize("second", ["a", "./a"], ids=["same", "dotted"])
def test_repeated_names_are_refused(second):
    with pytest.raises(ArtifactError, match="'a' occurs twice"):
        read_archive(tar_of(tar_file("a", b"1"), tar_file(second, b"2")))


def test_a_name_that_is_not_utf8_is_refused():
    block = bytearray(tar_file("aa")[0].tobuf(tarfile.USTAR_FORMAT))
    block[0] = 0xFF
    total = sum(block[:148]) + sum(block[156:]) + 256
    block[148:156] = f"{total:06o}\0 ".encode()
    with pytest.raises(ArtifactError, match="is not UTF-8"):
        read_archive(bytes(block) + bytes(1024))


def test_a_bomb_is_stopped_at_the_limit():
    bomb = packed(tar_of(tar_file("zeros", bytes(4 << 20))))
    assert len(bomb) < 8192
    with pytest.raises(ArtifactError, match="unpacks to more than 1048576 bytes"):
        read_archive(bomb, limits=ArchiveLimits(total_bytes=1 << 20))


def test_a_document_too_large_to_keep_is_refused_before_it_is_read():
    archive = tar_of(tar_file("sg00/def.json", bytes(2000)))
    with pytest.raises(ArtifactError, match=r"sg00/def\.json has 2000 bytes, expected at most 1000"):
        read_archive(archive, everything, ArchiveLimits(document_bytes=1000))
    assert read_archive(archive, limits=ArchiveLimits(document_bytes=1000)).contents == {}


def test_an_extended_header_too_large_is_refused():
    archive = tar_of(tar_file("a", pax_headers={"comment": "c" * 5000}))
    with pytest.raises(ArtifactError, match=r"extended header has 50.. bytes"):
        read_archive(archive, limits=ArchiveLimits(extension_bytes=4096))


def test_too_many_members_are_refused():
    with pytest.raises(ArtifactError, match="more than 2 members"):
        read_archive(tar_of(*(tar_file(name) for name in "abc")), limits=ArchiveLimits(members=2))


@pytest.mark.parametrize(
    "record",
    [b"9 path=ab\n", b"99 path=a\n", b"x path=a\n", b"0 \n", b"6 path\n", b"21 GNU.sparse.major=1\n", b"10 size=-1\n"],
    ids=["cut", "long", "no-length", "zero", "no-value", "sparse", "negative"],
)
def test_malformed_extended_headers_are_refused(record):
    extended, _ = tar_file("x", record, type=tarfile.XHDTYPE)
    content = record + bytes(-len(record) % 512)
    archive = extended.tobuf(tarfile.USTAR_FORMAT) + content + tar_of(tar_file("a"), dialect=tarfile.USTAR_FORMAT)
    with pytest.raises(ArtifactError, match=r"NEFF archive: (an extended header|a sparse file|size)"):
        read_archive(archive)


def test_an_extended_header_at_the_end_is_refused():
    extended, content = tar_file("x", b"10 path=ab\n", type=tarfile.XHDTYPE)
    with pytest.raises(ArtifactError, match="extended header"):
        read_archive(extended.tobuf(tarfile.USTAR_FORMAT) + content + bytes(512 - len(content)) + bytes(1024))


@pytest.mark.parametrize("compress", [True, False], ids=["gzip", "plain"])
def test_every_truncation_is_refused(compress):
    whole = pack_archive({"a": b"12345", "b/c": bytes(600)}, compress)
    needed = len(whole) if compress else len(whole.rstrip(b"\0")) + 512
    for length in range(needed):
        with pytest.raises(ArtifactError):
            read_archive(whole[:length], everything)


@pytest.mark.parametrize("junk", [b"\1", b"\0", bytes(512)], ids=["one", "zero", "zeros"])
def test_what_follows_the_gzip_data_is_refused(junk):
    with pytest.raises(ArtifactError, match="something follows the gzip data"):
        read_archive(pack_archive({"a": b"1"}) + junk)


def test_what_follows_the_end_mark_is_refused():
    plain = pack_archive({"a": b"1"}, compress=False)
    with pytest.raises(ArtifactError, match="something follows the end mark"):
        read_archive(plain + b"\1")


def test_half_an_end_mark_is_refused():
    plain = pack_archive({"a": b"1"}, compress=False)
    assert read_archive(plain[: 1024 + 1024]).members
    with pytest.raises(ArtifactError, match="half an end mark"):
        read_archive(plain[: 1024 + 512])


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data):
    """Without a hash, damage of a plain archive may go unseen in contents, but never ends in another error."""
    archive = bytearray(pack_archive({"sg00/def.json": b"{}", "b": bytes(40)}, data.draw(st.booleans())))
    for position in data.draw(st.lists(st.integers(0, len(archive) - 1), min_size=1, max_size=4)):
        archive[position] ^= data.draw(st.integers(1, 255))
    try:
        read_archive(bytes(archive), everything)
    except ArtifactError as error:
        assert str(error).startswith("NEFF archive")


@given(st.binary(max_size=1500))
def test_noise_is_refused(noise):
    with pytest.raises(ArtifactError):
        read_archive(noise)


def test_the_library_of_python_agrees():
    with tarfile.open(fileobj=io.BytesIO(pack_archive({"b": b"2", "a/c": b"1"}))) as archive:
        assert [(member.name, member.size, member.mtime) for member in archive] == [("a/c", 1, 0), ("b", 1, 0)]
