"""Writing a NEFF container around given members.

The result is what ``read_neff`` and the documented tools expect of a container. It holds no engine programs besides the
members it is given, no ``neff.json``, and leaves ``num_tpb`` and ``tpb_per_node`` of the header at their defaults, so
that no Neuron runtime can execute it. It serves tests and stand-ins for the compiler.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping

from ...errors import ArtifactError, ConfigError
from .descriptor import ANY_TARGET, DESCRIPTOR, TARGET_NAMES, NeffTensor, define, describe
from .header import PACKAGE_MD5, NeffHeader, digest_of


def make_neff(
    *,
    target: str,
    logical_core_size: int = 1,
    tensors: Iterable[NeffTensor] = (),
    members: Mapping[str, bytes] | None = None,
    name: str = "",
    build_version: str = "",
    feature_bits: int = 0,
    pkg_version: int = PACKAGE_MD5,
    compress: bool = True,
) -> bytes:
    """The bytes of a NEFF; equal arguments give equal bytes.

    Args:
        target: ``trn1``, ``trn2``, ``trn3`` or ``*``.
        logical_core_size: physical cores, 1 or 2; there is one subgraph for each.
        tensors: inputs and outputs, each in the subgraph it names.
        members: further files by name; those of the descriptors are written here.
        name: of the program.
        build_version: of the tool.
        feature_bits: abilities the runtime must have.
        pkg_version: 1 hashes the archive with SHA-256, 2 with MD5.
        compress: pack the archive with gzip.

    Raises:
        ArtifactError: a value the format cannot hold, or a member that clashes with a descriptor.
        ConfigError: an unknown target, or neither 1 nor 2 cores.
    """
    if target not in (*TARGET_NAMES, ANY_TARGET) or logical_core_size not in (1, 2):
        expected = f"one of {', '.join(TARGET_NAMES)} or {ANY_TARGET}, and 1 or 2"
        raise ConfigError(f"NEFF for {target!r} and {logical_core_size} physical cores: expected {expected}")
    graphs = tuple(f"sg{number:02}" for number in range(logical_core_size))
    declared = tuple(tensors)
    if strangers := {tensor.subgraph for tensor in declared} - set(graphs):
        raise ArtifactError(f"tensors of subgraphs {sorted(strangers)}, expected only {', '.join(graphs)}")
    files = {DESCRIPTOR: describe(target, graphs)}
    for graph in graphs:
        files[f"{graph}/def.json"] = define(tuple(tensor for tensor in declared if tensor.subgraph == graph))
    if clashes := files.keys() & (members or {}).keys():
        raise ArtifactError(f"members {sorted(clashes)} are written by make_neff; choose other names")
    archive = pack_archive(files | dict(members or {}), compress)
    header = NeffHeader(
        data_size=len(archive),
        digest=digest_of(archive, pkg_version),
        name=name,
        uuid=hashlib.sha256(archive).digest()[:16],
        pkg_version=pkg_version,
        build_version=build_version,
        requested_tpb_count=logical_core_size,
        feature_bits=feature_bits,
        lnc_size=logical_core_size,
    )
    return header.pack() + archive


def pack_archive(files: Mapping[str, bytes], compress: bool = True) -> bytes:
    """A tar archive of ``files`` in the order of their names, without times and owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uname, member.gname = len(content), 0o644, "nobody", "nobody"
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=1, mtime=0) if compress else buffer.getvalue()
