"""Ways to fail that no module causes, chosen by the environment variable ``NEURONX_CC_STANDIN_FAULT``.

``signal=NAME``, ``hang``, ``memory`` (takes more and more), ``flood`` (prints without end), ``garbage`` (prints bytes
that are no text and ends with 1), ``silent`` (ends with 1 and says nothing), ``internal`` (an internal error, status
70), ``flake=N`` (the same, but only in the first N runs, counted in ``NEURONX_CC_STANDIN_COUNT``), ``killed`` (the
driver reports that its child was killed). ``half``, ``foreign`` and ``none`` concern the program that is written.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

INTERNAL_STATUS = 70
INTERNAL = (
    "[INTERNAL_ERROR] [NCC_ITRF901] TritiumFusion assertion error: Unexpected remat axes - Please open a support "
    "ticket at https://github.com/aws-neuron/aws-neuron-sdk/issues/new"
)
KILLED = "[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory."


def fault() -> tuple[str, str]:
    """Name and value of the fault that is asked for; two empty texts for none."""
    name, _, value = os.environ.get("NEURONX_CC_STANDIN_FAULT", "").partition("=")
    return name, value


def fail(name: str, value: str) -> None:
    """Fail in one of these ways, or return for another one."""
    if name in ("hang", "memory", "flood", "signal"):
        # The real driver works in children: whoever ends a compilation has to end them, too.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if name == "signal":
        os.kill(os.getpid(), getattr(signal, value))
    if name == "hang":
        time.sleep(600)
    if name == "flood":
        while True:
            print("." * 4096)
    if name == "memory":
        _take_memory()
    if name == "garbage":
        sys.stdout.buffer.write(random.Random(0).randbytes(5000))
        raise SystemExit(1)
    if name == "silent":
        raise SystemExit(1)
    if name == "killed":
        _end_with(KILLED, 1)
    if name == "internal" or (name == "flake" and _count_run() <= int(value)):
        _end_with(INTERNAL, INTERNAL_STATUS)


def _end_with(text: str, status: int) -> None:
    print(text, file=sys.stderr)
    raise SystemExit(status)


def _count_run() -> int:
    path = Path(os.environ["NEURONX_CC_STANDIN_COUNT"])
    count = int(path.read_text() or 0) + 1 if path.exists() else 1
    path.write_text(str(count))
    return count


def _take_memory() -> None:
    kept = []
    while True:
        kept.append(bytearray(b"x") * (8 << 20))
        time.sleep(0.01)
