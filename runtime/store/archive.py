"""Entries in a plain tar file, for machines that share no file system."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ...errors import ArtifactError
from ...files import written_whole
from .directory import StoreDirectory
from .entry import load_entry, load_manifest
from .layout import is_digest
from .manifest import MANIFEST, check_name
from .publish import new_stage, write_file

_LARGEST_MANIFEST = 16 << 20


def export_entries(directory: StoreDirectory, digests: Iterable[str], archive: Path) -> list[str]:
    """Write verified entries to a new tar file, whole or not at all; returns the digests that are in it."""
    exported = []
    with written_whole(archive) as partial, tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
        for digest in digests:
            entry = directory.load(digest)
            if entry is None:
                continue
            _add(tar, f"{digest}/{MANIFEST}", entry.manifest.to_bytes())
            for name, content in sorted(entry.contents.items()):
                _add(tar, f"{digest}/{name}", content)
            exported.append(digest)
    return exported


def import_entries(directory: StoreDirectory, archive: Path) -> list[str]:
    """Publish every entry of a tar file after verifying it; returns their digests.

    Entries are taken one by one, so those before a bad one stay.

    Raises:
        ArtifactError: the file is no tar of entries, or an entry in it is damaged; the message names the member.
        OSError: the store cannot be written.
    """
    imported = []
    try:
        with tarfile.open(archive, "r:") as tar:
            member = tar.next()
            while member is not None:
                digest = _checked_name(member)[0]
                with new_stage(directory.layout) as stage:
                    member = _unpack(tar, member, digest, stage)
                    _verify(stage, digest)
                    directory.publish(stage, digest)
                imported.append(digest)
    except tarfile.TarError as error:
        raise ArtifactError(f"{archive} is no tar file of entries, or it is cut short: {error}") from error
    return imported


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)
    if isinstance(content, bytes):
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    else:
        member.size = content.stat().st_size
        with content.open("rb") as file:
            tar.addfile(member, file)


def _unpack(tar: tarfile.TarFile, first: tarfile.TarInfo, digest: str, stage: Path) -> tarfile.TarInfo | None:
    """Unpack the members of one entry, manifest first, and return the first member of the next."""
    if _checked_name(first)[1] != MANIFEST or first.size > _LARGEST_MANIFEST:
        raise ArtifactError(f"member {first.name!r}: an entry begins with its {MANIFEST}, of at most 16 MiB")
    _extract(tar, first, stage / MANIFEST)
    try:
        files = load_manifest(stage, digest).files
    except ArtifactError as error:
        raise ArtifactError(f"member {first.name!r}: {error}") from error
    member = tar.next()
    while member is not None and _checked_name(member)[0] == digest:
        name = member.name.partition("/")[2]
        if name not in files or member.size != files[name].size or (stage / name).exists():
            raise ArtifactError(f"member {member.name!r} of {member.size} bytes is not in the manifest of its entry")
        _extract(tar, member, stage / name)
        member = tar.next()
    return member


def _checked_name(member: tarfile.TarInfo) -> tuple[str, str]:
    parts = PurePosixPath(member.name).parts
    if (
        not member.isreg()
        or member.issparse()
        or len(parts) != 2
        or member.name != "/".join(parts)
        or not is_digest(parts[0])
    ):
        raise ArtifactError(f"member {member.name!r}: expected plain files named DIGEST/NAME and nothing else")
    if parts[1] != MANIFEST:
        check_name(parts[1])
    return parts[0], parts[1]


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise ArtifactError(f"member {member.name!r} has no content")
    write_file(path, lambda file: shutil.copyfileobj(content, file, 1 << 20))


def _verify(stage: Path, digest: str) -> None:
    try:
        load_entry(stage, digest)
    except ArtifactError as error:
        raise ArtifactError(f"entry {digest}: {error}") from error
