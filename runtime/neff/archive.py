"""The tar archive behind the header: its members, listed without unpacking any to disk.

The dialects are those of libarchive, which Neuron's compiler writes with and its runtime reads with: ustar, with
the extended headers of POSIX pax and GNU. Names that would leave a directory when unpacked are refused here, so that
whoever unpacks later need not think of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import ArtifactError
from .stream import ArchiveStream

_BLOCK = 512
_REGULAR, _DIRECTORY = (b"0", b"\0"), b"5"
_PAX, _PAX_GLOBAL, _GNU_LONG_NAME = b"x", b"g", b"L"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]|^/|^[A-Za-z]:/")


@dataclass(frozen=True)
class ArchiveLimits:
    """What an archive may cost its reader.

    Attributes:
        total_bytes: of the unpacked archive.
        members: files and directories.
        document_bytes: of one file that is read into memory.
        extension_bytes: of one extended header.
    """

    total_bytes: int = 64 << 30
    members: int = 1 << 20
    document_bytes: int = 256 << 20
    extension_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A file or directory of an archive: its name without ``./`` and closing ``/``, and its bytes."""

    name: str
    size: int
    is_directory: bool


@dataclass(frozen=True)
class Archive:
    """What ``read_archive`` found: all members in order, and the content of the files that were asked for."""

    members: tuple[Member, ...]
    contents: dict[str, bytes]


def read_archive(
    data: bytes | memoryview,
    wanted: Callable[[str], bool] = lambda name: False,
    limits: ArchiveLimits | None = None,
) -> Archive:
    """List an archive in one pass.

    Args:
        data: a tar archive, packed with gzip or not.
        wanted: says of each file's name whether its content is to be returned.
        limits: bounds on what is read.

    Raises:
        ArtifactError: damage, truncation, an unsafe or repeated name, a member that is no file or directory,
            or a limit passed.
    """
    limits = limits or ArchiveLimits()
    stream = ArchiveStream(memoryview(data), limits.total_bytes)
    members: dict[str, Member] = {}
    contents: dict[str, bytes] = {}
    while (member := _next_member(stream, limits)) is not None:
        if member.name in members:
            raise ArtifactError(f"NEFF archive: member {member.name!r} occurs twice; the file is damaged")
        if len(members) == limits.members:
            raise ArtifactError(f"NEFF archive: more than {limits.members} members; expected a program of fewer")
        if wanted(member.name) and not member.is_directory:
            contents[member.name] = _content(stream, member, limits.document_bytes)
        else:
            _skip_content(stream, member)
        if member.name:
            members[member.name] = member
    _expect_zeros(stream)
    return Archive(tuple(members.values()), contents)


def _next_member(stream: ArchiveStream, limits: ArchiveLimits) -> Member | None:
    """The next member with its extended headers applied, or None at the end mark."""
    overrides: dict[str, str] = {}
    while (block := _header_block(stream)) is not None:
        kind, size = block[156:157], _number(block[124:136], stream)
        if kind in (_PAX, _PAX_GLOBAL, _GNU_LONG_NAME):
            overrides |= _extension(kind, _document(stream, "extended header", size, limits.extension_bytes))
            continue
        if kind not in (*_REGULAR, _DIRECTORY):
            raise ArtifactError(
                f"NEFF archive: {_stored_name(block)!r} is of type {kind!r}, expected a file or a directory; "
                "links and devices are refused"
            )
        name = overrides["path"] if "path" in overrides else _stored_name(block)
        is_directory = kind == _DIRECTORY or name.endswith("/")
        return Member(_safe(name, is_directory), 0 if is_directory else _size(overrides, size), is_directory)
    if overrides:
        raise ArtifactError("NEFF archive: an extended header without its member; the file is damaged")
    return None


def _header_block(stream: ArchiveStream) -> bytes | None:
    """The next header block with its checksum checked, or None for the first block of the end mark."""
    start = stream.offset
    block = stream.read(_BLOCK)
    if len(block) < _BLOCK:
        raise ArtifactError(f"NEFF archive: ends at byte {stream.offset} without an end mark; the file is truncated")
    if not any(block):
        return None
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    if total != _number(block[148:156], stream):
        raise ArtifactError(f"NEFF archive: the header at byte {start} has a wrong checksum; the file is damaged")
    return block


def _expect_zeros(stream: ArchiveStream) -> None:
    """Behind the first zero block there must be a second one, and nothing but zeros."""
    if len(block := stream.read(_BLOCK)) < _BLOCK:
        raise ArtifactError("NEFF archive: half an end mark; the file is truncated")
    while block:
        if any(block):
            raise ArtifactError("NEFF archive: something follows the end mark; the file is damaged")
        block = stream.read(_BLOCK)


def _content(stream: ArchiveStream, member: Member, limit: int) -> bytes:
    return _document(stream, member.name, member.size, limit)


def _document(stream: ArchiveStream, name: str, size: int, limit: int) -> bytes:
    if size > limit:
        raise ArtifactError(f"NEFF archive: {name} has {size} bytes, expected at most {limit}; the file is damaged")
    content = stream.read(size)
    if len(content) < size or stream.skip(-size % _BLOCK) < -size % _BLOCK:
        raise _truncated(name)
    return content


def _skip_content(stream: ArchiveStream, member: Member) -> None:
    padded = member.size + -member.size % _BLOCK
    if stream.skip(padded) < padded:
        raise _truncated(member.name)


def _truncated(name: str) -> ArtifactError:
    return ArtifactError(f"NEFF archive: the content of {name} is cut short; the file is truncated")


def _number(field: bytes, stream: ArchiveStream) -> int:
    """Octal digits, or big-endian binary behind a set top bit (GNU)."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]*", digits):
        raise ArtifactError(f"NEFF archive: no number in the header before byte {stream.offset}; the file is damaged")
    return int(digits or b"0", 8)


def _size(overrides: dict[str, str], stored: int) -> int:
    size = overrides.get("size")
    if size is None:
        return stored
    if not re.fullmatch(r"[0-9]{1,19}", size):
        raise ArtifactError(f"NEFF archive: size {size!r} in an extended header, expected digits; the file is damaged")
    return int(size)


def _stored_name(block: bytes) -> str:
    name, prefix = (part.partition(b"\0")[0] for part in (block[:100], block[345:500]))
    is_posix = block[257:263] == b"ustar\0"
    return _decode(prefix + b"/" + name if prefix and is_posix else name)


def _extension(kind: bytes, content: bytes) -> dict[str, str]:
    """The values of an extended header that matter here: ``path`` and ``size``."""
    if kind == _GNU_LONG_NAME:
        return {"path": _decode(content.removesuffix(b"\0"))}
    values: dict[str, str] = {}
    while content:
        length, _, _ = content.partition(b" ")
        size = int(length) if re.fullmatch(rb"[1-9][0-9]{0,9}", length) else 0
        record, content = content[:size], content[size:]
        key, equals, value = record[len(length) + 1 : -1].partition(b"=")
        if not equals or len(record) < size or not record.endswith(b"\n"):
            raise ArtifactError("NEFF archive: an extended header is not 'length key=value' lines; the file is damaged")
        if key.startswith(b"GNU.sparse"):
            raise ArtifactError("NEFF archive: a sparse file, expected files stored whole")
        values[_decode(key)] = _decode(value)
    return {key: value for key, value in values.items() if key in ("path", "size") and kind == _PAX}


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ArtifactError(f"NEFF archive: name {text!r} is not UTF-8; the file is damaged") from None


def _safe(name: str, is_directory: bool) -> str:
    """The name without ``./`` and closing ``/``; refuses one that would be written outside of its directory."""
    parts = [part for part in name.removesuffix("/").split("/") if part != "."]
    names_nothing = not parts and not is_directory
    if _UNSAFE.search(name) or names_nothing or any(part in ("", "..") for part in parts):
        raise ArtifactError(
            f"NEFF archive: member name {name!r} is unsafe; expected a relative path without '..', "
            "control characters or backslashes: do not unpack this file"
        )
    return "/".join(parts)
