"""Sizes for people."""

from __future__ import annotations


def size_text(count: int) -> str:
    """A number of bytes in the largest unit in which it is at least one, such as ``1.5 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
