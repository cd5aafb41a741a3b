"""Stand-in for the options of NKI's compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompileOptions:
    """The options that public code gives."""

    target: str
    lnc: int
    artifacts_dir: str
    output_path: str
