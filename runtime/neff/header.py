"""The 1024 bytes in front of every NEFF.

Layout: AWS Neuron SDK documentation, "Work with NEFF Files", struct ``neff_header``; little-endian, packed.
Meaning of ``pkg_version``: leanprover/KLR, KLR/NEFF/Basic.lean (Amazon).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Self

from ...errors import ArtifactError

HEADER_SIZE = 1024
PACKAGE_SHA256 = 1
PACKAGE_MD5 = 2
HIGHEST_MAJOR = 2
SUPPORTED_FEATURES = 0x8000_0000_07FF_FFFF
"""Feature bits that some public Neuron runtime says it supports; the others belong to newer compilers."""

_LAYOUT = struct.Struct("<5Q128sI32s16s256sI64sQI468x")
_DIGESTS = {PACKAGE_SHA256: hashlib.sha256, PACKAGE_MD5: hashlib.md5}


@dataclass(frozen=True)
class NeffHeader:
    """What a NEFF says about itself.

    Attributes:
        data_size: bytes of the archive behind the header.
        digest: hash of the archive's bytes as stored: 32 bytes of SHA-256 if ``pkg_version`` is 1,
            16 bytes of MD5 if it is 2.
        name: of the program, at most 256 bytes of UTF-8.
        uuid: 16 bytes.
        pkg_version: how the archive is hashed.
        version: format version, (major, minor).
        build_version: of the tool that wrote the file, at most 128 bytes of UTF-8.
        num_tpb: cores for efficient execution.
        requested_tpb_count: cores asked for at compilation.
        tpb_per_node: 64 bytes, one count for each graph node.
        feature_bits: abilities that the runtime must have; meaningful from major version 2 on.
        lnc_size: physical cores that form the logical core this program runs on; 0 in files older than the field.
    """

    data_size: int
    digest: bytes
    name: str = ""
    uuid: bytes = bytes(16)
    pkg_version: int = PACKAGE_MD5
    version: tuple[int, int] = (2, 0)
    build_version: str = ""
    num_tpb: int = 1
    requested_tpb_count: int = 1
    tpb_per_node: bytes = bytes(64)
    feature_bits: int = 0
    lnc_size: int = 1

    @property
    def logical_core_size(self) -> int:
        """Physical cores of the logical core: ``lnc_size``, and 1 for files older than that field."""
        return max(self.lnc_size, 1)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read and check a header.

        Args:
            data: at least the first 1024 bytes of a NEFF.

        Raises:
            ArtifactError: a value that no published version of the format has; names the field.
        """
        if len(data) < HEADER_SIZE:
            raise ArtifactError(
                f"NEFF of {len(data)} bytes: expected a header of {HEADER_SIZE} bytes; the file is truncated, "
                "compile it again"
            )
        (
            package,
            header_size,
            data_size,
            major,
            minor,
            build,
            num_tpb,
            digest,
            uuid,
            name,
            requested,
            nodes,
            bits,
            lnc,
        ) = _LAYOUT.unpack_from(data)
        if package not in _DIGESTS:
            raise _unusable("pkg_version", package, "1 (SHA-256) or 2 (MD5)", "this is no NEFF, or it is damaged")
        if header_size != HEADER_SIZE:
            raise _unusable("header_size", header_size, str(HEADER_SIZE), "this is no NEFF, or it is damaged")
        header = cls(
            data_size=data_size,
            digest=digest[: _DIGESTS[package]().digest_size],
            name=_text(name),
            uuid=uuid,
            pkg_version=package,
            version=(major, minor),
            build_version=_text(build),
            num_tpb=num_tpb,
            requested_tpb_count=requested,
            tpb_per_node=nodes,
            feature_bits=bits,
            lnc_size=lnc,
        )
        header._check()
        return header

    def pack(self) -> bytes:
        """The 1024 bytes of this header.

        Raises:
            ArtifactError: a value that ``parse`` would refuse, or one too long for its field; names the field.
        """
        self._check()
        for field, size in (("digest", _DIGESTS[self.pkg_version]().digest_size), ("uuid", 16), ("tpb_per_node", 64)):
            if len(getattr(self, field)) != size:
                raise _unusable(field, getattr(self, field), f"{size} bytes", "correct the caller")
        try:
            return _LAYOUT.pack(
                self.pkg_version,
                HEADER_SIZE,
                self.data_size,
                *self.version,
                _field("build_version", self.build_version, 128),
                self.num_tpb,
                self.digest,
                self.uuid,
                _field("name", self.name, 256),
                self.requested_tpb_count,
                self.tpb_per_node,
                self.feature_bits,
                self.lnc_size,
            )
        except struct.error as error:
            raise ArtifactError(f"NEFF header of {self.name!r}: a number does not fit its field: {error}") from error

    def matches(self, archive: bytes | memoryview) -> bool:
        """Whether the stored hash is that of ``archive``, the bytes behind the header."""
        return _DIGESTS[self.pkg_version](archive).digest() == self.digest

    def _check(self) -> None:
        if self.pkg_version not in _DIGESTS:
            raise _unusable("pkg_version", self.pkg_version, "1 (SHA-256) or 2 (MD5)", "correct the caller")
        major, minor = self.version
        if major > HIGHEST_MAJOR:
            raise _unusable("version", f"{major}.{minor}", f"at most {HIGHEST_MAJOR}.x", _NEWER)
        unknown = self.feature_bits & ~SUPPORTED_FEATURES
        if major == HIGHEST_MAJOR and unknown:
            raise _unusable("feature_bits", f"{self.feature_bits:#x}", f"none of {unknown:#x}", _NEWER)
        if self.lnc_size > 2:
            raise _unusable("lnc_size", self.lnc_size, "1 or 2", "the file is damaged, compile it again")
        if self.data_size == 0:
            raise _unusable("data_size", 0, "an archive", "the file is damaged, compile it again")


_NEWER = "it comes from a newer compiler, use the compiler of the installed runtime"


def digest_of(archive: bytes, pkg_version: int) -> bytes:
    """The hash of an archive as a header of that ``pkg_version`` stores it."""
    return _DIGESTS[pkg_version](archive).digest()


def _unusable(field: str, value: object, expected: str, next_step: str) -> ArtifactError:
    return ArtifactError(f"NEFF header: {field} is {value!r}, expected {expected}; {next_step}")


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _field(name: str, text: str, size: int) -> bytes:
    encoded = text.encode()
    if len(encoded) > size or b"\0" in encoded:
        raise _unusable(name, text, f"at most {size} bytes of UTF-8 without NUL", "shorten it")
    return encoded
