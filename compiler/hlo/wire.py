"""Protocol Buffers on the wire: a message as its fields in order, whatever its schema.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import ArtifactError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: an int for a varint, otherwise its bytes."""

    number: int
    kind: int
    value: int | bytes

    @property
    def content(self) -> bytes:
        """The bytes of a string, message or packed list."""
        if not isinstance(self.value, bytes):
            raise ArtifactError(f"field {self.number} of a protocol buffer is a number, and a message was expected")
        return self.value


def varint(number: int, value: int) -> Field:
    """A field that holds a number."""
    return Field(number, VARINT, value)


def message(number: int, content: bytes | Iterable[Field]) -> Field:
    """A field that holds a string, a message or a packed list."""
    return Field(number, LENGTH, content if isinstance(content, bytes) else write_fields(content))


def read_fields(data: bytes) -> list[Field]:
    """The fields of a message; raises ArtifactError for bytes that are none."""
    fields = []
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, position = _read_varint(data, position)
            fields.append(Field(number, kind, value))
            continue
        size = _FIXED_BYTES.get(kind)
        if kind == LENGTH:
            size, position = _read_varint(data, position)
        if size is None or position + size > len(data):
            raise ArtifactError(f"no protocol buffer: field {number} at byte {position} is damaged")
        fields.append(Field(number, kind, data[position : position + size]))
        position += size
    return fields


def write_fields(fields: Iterable[Field]) -> bytes:
    """A message as bytes."""
    out = bytearray()
    for field in fields:
        out += _varint_bytes(field.number << 3 | field.kind)
        if isinstance(field.value, int):
            out += _varint_bytes(field.value)
        else:
            out += (_varint_bytes(len(field.value)) if field.kind == LENGTH else b"") + field.value
    return bytes(out)


def unpack(content: bytes) -> list[int]:
    """The numbers of a packed list."""
    numbers = []
    position = 0
    while position < len(content):
        number, position = _read_varint(content, position)
        numbers.append(number)
    return numbers


def pack(numbers: Iterable[int]) -> bytes:
    """A packed list of numbers."""
    return b"".join(map(_varint_bytes, numbers))


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at ``position``, and the position after it."""
    number = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise ArtifactError(f"no protocol buffer: the number at byte {position} does not end")


def _varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
