"""The line that every command ends with."""

from __future__ import annotations

import re

VERDICT = re.compile(r"Verdict: (good|not good|not finished): (.+); next: (.+)")


def verdict_of(stdout: str) -> tuple[str, str, str]:
    """How good it is, what was found and the next step, from the last line that a command printed."""
    match = VERDICT.fullmatch(stdout.splitlines()[-1])
    assert match is not None, stdout
    return match[1], match[2], match[3]
