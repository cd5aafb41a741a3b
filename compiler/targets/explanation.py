"""An error of neuronx-cc for people: what it means, and what to do about it here."""

from __future__ import annotations

from .diagnostics import Diagnostic
from .error_codes import ErrorCode, find_code


def meaning_of(diagnostic: Diagnostic) -> ErrorCode | None:
    """What the code of an error means; None without a code."""
    return find_code(diagnostic.code) if diagnostic.code else None


def describe(diagnostic: Diagnostic) -> str:
    """Code, model line and message, then what the code means and what to do next."""
    where = f" at {diagnostic.source}" if diagnostic.source else ""
    head = ": ".join(part for part in (f"{_title(diagnostic.code)}{where}".strip(), diagnostic.message) if part)
    operation = " ".join(part for part in (diagnostic.opcode, diagnostic.operation) if part)
    meaning = meaning_of(diagnostic)
    rows = [
        ("operation", operation),
        ("instruction", diagnostic.instruction),
        ("meaning", f"{meaning.meaning} ({meaning.kind})" if meaning else ""),
        ("compiler says", diagnostic.resolution),
        ("next", meaning.remedy if meaning else ""),
    ]
    return "\n".join([head, *(f"  {name}: {value}" for name, value in rows if value)])


def _title(code: str) -> str:
    """The code as documentation and search engines know it."""
    is_modern = len(code) > 6 and code[0] in "EI"
    return f"NCC_{code}" if is_modern else code
