"""The processors of this machine: what programs are compiled for, and how many work at once."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path


@cache
def processor_digest() -> str:
    """Equal on machines whose processors have the same features, as Linux lists them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:16]


def usable_processors() -> int:
    """How many processors this process may use, which a container or ``taskset`` makes fewer than the machine has."""
    return len(os.sched_getaffinity(0))
