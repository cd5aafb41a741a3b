"""Reading an archive from front to back, packed with gzip or not, without holding it in memory."""

from __future__ import annotations

import zlib

from ...errors import ArtifactError

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_PIECE = 1 << 16


class ArchiveStream:
    """The unpacked bytes of ``data``, in order, up to a limit.

    Raises, from every method, ArtifactError if the gzip data is damaged or truncated, if something follows it, or if
    more than ``limit`` bytes come out of it (an archive made to fill the memory or the disk).
    """

    def __init__(self, data: memoryview, limit: int) -> None:
        self._data = data
        self._limit = limit
        self._taken = 0
        self._offset = 0
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if bytes(data[:2]) == _GZIP_MAGIC else None

    @property
    def offset(self) -> int:
        """Unpacked bytes read or skipped so far."""
        return self._offset

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer only at the end."""
        while len(self._buffer) < size and (piece := self._next_piece()):
            self._buffer += piece
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._offset += len(content)
        return content

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns how many there were."""
        left = size
        while left and (piece := self.read(min(left, _PIECE))):
            left -= len(piece)
        return size - left

    def _next_piece(self) -> bytes:
        piece = self._stored() if self._inflater is None else self._inflated(self._inflater)
        if self._offset + len(self._buffer) + len(piece) > self._limit:
            raise ArtifactError(
                f"NEFF archive unpacks to more than {self._limit} bytes; it is damaged or made to do harm, "
                "raise the limit only if you trust its source"
            )
        return piece

    def _stored(self) -> bytes:
        piece = bytes(self._data[self._taken : self._taken + _PIECE])
        self._taken += len(piece)
        return piece

    def _inflated(self, inflater: zlib._Decompress) -> bytes:
        while not inflater.eof:
            packed = inflater.unconsumed_tail or self._stored()
            try:
                piece = inflater.decompress(packed, _PIECE)
            except zlib.error as error:
                raise ArtifactError(f"NEFF archive: the gzip data is damaged ({error}); compile it again") from error
            if piece:
                return piece
            if not packed:
                raise ArtifactError("NEFF archive: the gzip data ends too early; the file is truncated")
        if inflater.unused_data or self._taken < len(self._data):
            raise ArtifactError("NEFF archive: something follows the gzip data; the file is damaged")
        return b""
