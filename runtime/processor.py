"""The processor that programs for this machine are compiled for."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def processor_digest() -> str:
    """Equal on machines whose processors have the same features, as Linux lists them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:16]
