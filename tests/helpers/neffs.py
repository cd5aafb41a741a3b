"""Small NEFFs, whole and in pieces."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import replace

from deepinfer_neuron.runtime.neff.descriptor import NeffTensor
from deepinfer_neuron.runtime.neff.header import HEADER_SIZE, NeffHeader, digest_of
from deepinfer_neuron.runtime.neff.writer import make_neff

TENSORS = (NeffTensor("sg00", "input0", "input", 64), NeffTensor("sg00", "output0", "output", 32))


def small_neff(**changes: object) -> bytes:
    """A NEFF for trn2 and one core with two tensors and one engine file."""
    arguments = {"target": "trn2", "tensors": TENSORS, "members": {"sg00/pe.bin": bytes(range(64))}, "name": "small"}
    return make_neff(**(arguments | changes))


def with_archive(archive: bytes, neff: bytes | None = None) -> bytes:
    """Another archive behind the header of ``neff``, with size and hash brought up to date."""
    header = NeffHeader.parse((neff or small_neff())[:HEADER_SIZE])
    header = replace(header, data_size=len(archive), digest=digest_of(archive, header.pkg_version))
    return header.pack() + archive


def tar_of(*members: tuple[tarfile.TarInfo, bytes], dialect: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive of members as they are, safe or not."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=dialect) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def tar_file(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member for ``tar_of``."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def packed(archive: bytes) -> bytes:
    return gzip.compress(archive, mtime=0)
