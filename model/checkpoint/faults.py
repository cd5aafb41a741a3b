"""One message for many faults."""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 20


def fault_list(headline: str, faults: Sequence[str], advice: str) -> str:
    """``headline``, then up to twenty faults a line each and a count of the rest, then ``advice``."""
    lines = list(faults[:_LISTED])
    if len(faults) > _LISTED:
        lines.append(f"and {len(faults) - _LISTED} more")
    return "\n  ".join([headline, *lines]) + f"\n{advice}"
