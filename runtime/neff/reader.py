"""Reading a NEFF: everything that can be checked before a device sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import ArtifactError, ConfigError
from .archive import ArchiveLimits, Member, read_archive
from .descriptor import (
    ANY_TARGET,
    TARGET_NAMES,
    NeffTensor,
    declared_target,
    declared_tensors,
    is_descriptor,
    subgraphs,
)
from .header import HEADER_SIZE, NeffHeader


@dataclass(frozen=True)
class Neff:
    """A NEFF that was read and found whole.

    Attributes:
        header: the header as stored.
        members: files and directories of the archive, in order.
        target: ``trn1``, ``trn2``, ``trn3``, ``*`` for any, or None if the file does not say.
        tensors: inputs and outputs of every subgraph.
        hash_matches: whether the stored hash is that of the archive.
    """

    header: NeffHeader
    members: tuple[Member, ...]
    target: str | None
    tensors: tuple[NeffTensor, ...]
    hash_matches: bool


def read_neff(
    source: Path | bytes,
    *,
    target: str | None = None,
    logical_core_size: int | None = None,
    verify_hash: bool = True,
    limits: ArchiveLimits | None = None,
) -> Neff:
    """Read and check a NEFF.

    Args:
        source: the file, or its bytes.
        target: refuse a program for another one of ``trn1``, ``trn2``, ``trn3``.
        logical_core_size: refuse a program for another number of physical cores.
        verify_hash: refuse an archive with another hash than the header's; if False, ``hash_matches`` reports it.
        limits: bounds on what is read of the archive.

    Raises:
        ArtifactError: damage, truncation, an unsafe member, an unknown version or ability, another target.
        ConfigError: ``target`` is none of the three.
    """
    if target is not None and target not in TARGET_NAMES:
        raise ConfigError(f"target {target!r}: expected one of {', '.join(TARGET_NAMES)}")
    name = str(source) if isinstance(source, Path) else "NEFF in memory"
    data = source.read_bytes() if isinstance(source, Path) else source
    try:
        neff = _read(memoryview(data), verify_hash, limits)
        _expect(neff, target, logical_core_size)
    except ArtifactError as error:
        raise ArtifactError(f"{name}: {error}") from error
    return neff


def _read(data: memoryview, verify_hash: bool, limits: ArchiveLimits | None) -> Neff:
    header = NeffHeader.parse(bytes(data[:HEADER_SIZE]))
    packed = data[HEADER_SIZE:]
    if len(packed) != header.data_size:
        kind = "truncated" if len(packed) < header.data_size else "followed by something else"
        raise ArtifactError(
            f"{len(packed)} bytes behind the header, expected {header.data_size}; the file is {kind}, compile it again"
        )
    hash_matches = header.matches(packed)
    if verify_hash and not hash_matches:
        raise ArtifactError("the archive does not have the hash that the header stores; compile it again")
    archive = read_archive(packed, is_descriptor, limits)
    graphs = subgraphs([member.name for member in archive.members])
    if len(graphs) != header.logical_core_size:
        raise ArtifactError(
            f"{len(graphs)} subgraphs for a logical core of {header.logical_core_size} physical cores, expected one "
            "for each; the file is damaged, compile it again"
        )
    return Neff(
        header, archive.members, declared_target(archive.contents), declared_tensors(archive.contents), hash_matches
    )


def _expect(neff: Neff, target: str | None, logical_core_size: int | None) -> None:
    if target is not None and neff.target not in (target, ANY_TARGET, None):
        raise ArtifactError(f"compiled for {neff.target}, expected {target}; compile it with --target {target}")
    size = neff.header.logical_core_size
    if logical_core_size is not None and size != logical_core_size:
        raise ArtifactError(
            f"compiled for logical cores of {size} physical cores, expected {logical_core_size}; "
            f"compile it with --lnc {logical_core_size}, or set NEURON_LOGICAL_NC_CONFIG={size}"
        )
