"""Text that is safe to write between tags and in attributes of XML and HTML."""

from __future__ import annotations

from html import escape


def markup_text(text: str) -> str:
    """``text`` escaped, with U+FFFD for the characters that XML 1.0 (section 2.2) has no place for."""
    return escape("".join(one if _is_character(one) else "\ufffd" for one in text))


def _is_character(one: str) -> bool:
    code = ord(one)
    return one in "\t\n\r" or (code >= 0x20 and not 0xD800 <= code <= 0xDFFF and code not in (0xFFFE, 0xFFFF))
