"""Canonical tensor names: the release's own, from any spelling its convert.py accepts."""

from __future__ import annotations

import re

_REPLACEMENTS = (
    (re.compile(r"^model\."), ""),
    (re.compile(r"\bself_attn\b"), "attn"),
    (re.compile(r"\bmlp\b"), "ffn"),
    (re.compile(r"\bweight_scale_inv$"), "scale"),
    (re.compile(r"\be_score_correction_bias$"), "bias"),
)
_SKIPPED = re.compile(
    r"^(vision\.|aligner\.|image_(start|end|newline)$|mtp\.\d+\.(embed|head)\.weight$)",
)


def canonical_name(stored: str) -> str | None:
    """The name :func:`~.layout.expected_tensors` uses, or None for a tensor the text model does not read.

    Not read are the vision tower, its aligner and markers, and the draft stages' copies of the tied ``embed`` and
    ``head``. Rules: DeepSeek-V4.1 inference code, convert.py.
    """
    name = stored
    for pattern, replacement in _REPLACEMENTS:
        name = pattern.sub(replacement, name)
    return None if _SKIPPED.match(name) else name
