"""A worker whose compiler does something odd with modules that contain a tanh, and notes every module it compiles.

Run as ``odd_compiler.py ODDITY LOG TARGET STORE [SHARED...]`` with an oddity of the table below.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.compiler.workers import worker
from deepinfer_neuron.errors import CompileError
from deepinfer_neuron.runtime.artifacts import Artifact


def refuse() -> None:
    raise CompileError("no registers left\nat step.py:7")


ODDITIES: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "refuses": refuse,
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hangs": lambda: time.sleep(600),
}


def command(oddity: str, log: Path, store: Path) -> list[str]:
    """What to start such a worker with."""
    return [sys.executable, __file__, oddity, str(log), "host", str(store)]


def main(oddity: str, log: str, *arguments: str) -> None:
    compile_module = HostTarget.compile

    def compile_oddly(target: HostTarget, module: LoweredModule) -> Artifact:
        with Path(log).open("a") as file:
            file.write(hashlib.sha256(module.bytecode).hexdigest() + "\n")
        if "stablehlo.tanh" in module.text():
            ODDITIES[oddity]()
        return compile_module(target, module)

    HostTarget.compile = compile_oddly
    worker.main(list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
