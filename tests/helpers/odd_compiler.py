"""XLA as a program that does something odd with modules that contain a tanh, and notes every module it compiles.

Run as ``odd_compiler.py ODDITY LOG MODULE PROGRAM`` with an oddity of the table below.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deepinfer_neuron.compiler.targets.host_process import main as compile_module


def refuse() -> None:
    print("error: no registers left\nat step.py:7", file=sys.stderr)
    sys.exit(1)


ODDITIES: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "refuses": refuse,
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hangs": lambda: time.sleep(600),
}


def install(oddity: str, log: Path) -> None:
    """Have the host's target compile with it; undone by whoever monkeypatches ``HostTarget.command`` before."""
    from deepinfer_neuron.compiler.targets.host import HostTarget

    command = HostTarget.command
    words = (sys.executable, __file__, oddity, str(log), "{input}", "{output}")
    HostTarget.command = lambda target: replace(command(target), command=words)


def main(oddity: str, log: str, module: str, program: str) -> int:
    content = Path(module).read_bytes()
    with Path(log).open("a") as file:
        file.write(hashlib.sha256(content).hexdigest() + "\n")
    if b"tanh" in content:
        ODDITIES[oddity]()
    return compile_module(module, program)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
