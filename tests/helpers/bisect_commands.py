"""The ``bisect`` command in a process of its own, with a stand-in for a compiler that takes no time."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interruptible import start_interruptible

WIDTH = 40
PLANTED = ("tanh", "cosine")
"""The stand-in fails on modules with both."""

_FACTS = (
    *("subject", "signature", "first", "last", "operations", "kept", "minimal", "smallest_module", "good"),
    *("simplifications", "removals", "is_minimal", "complete", "also_seen"),
)
_LONGEST_S = 300


def long_module() -> str:
    """A chain of 40 operations on lines 1 to 40 of two files, with those that the stand-in fails on far apart."""
    odd = {9: "stablehlo.tanh", 31: "stablehlo.cosine"}
    lines = [
        f"%{number} = {odd.get(number, 'stablehlo.sine')} %{number - 1 if number else 'x'} : tensor<8xf32> "
        f'loc("model/{"front" if number < WIDTH // 2 else "back"}.py":{number + 1}:0)'
        for number in range(WIDTH)
    ]
    body = "\n".join(lines)
    return f"func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{\n{body}\nreturn %{WIDTH - 1} : tensor<8xf32>\n}}\n"


@dataclass(frozen=True)
class BisectCommand:
    """A module, a stand-in for a compiler, and the command that bisects the one with the other.

    Attributes:
        directory: of both; ``seconds``: that each run of the stand-in takes.
    """

    directory: Path
    seconds: float = 0.0

    def write(self) -> BisectCommand:
        """Write the files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "module.mlir").write_text(long_module())
        script = self.directory / "standin_compiler.sh"
        tests = " && ".join(f'grep -q "stablehlo.{one}" "$1"' for one in PLANTED)
        slept = f"sleep {self.seconds}\n" if self.seconds else ""
        slept += f"while [ -e {shlex.quote(str(self.hold))} ]; do sleep 0.05; done\n"
        script.write_text(f"#!/bin/sh\n{slept}if {tests}; then echo 'error: no room for both' >&2; exit 3; fi\n")
        script.chmod(0o755)
        return self

    @property
    def hold(self) -> Path:
        """A file; while it is there, the stand-in does not end."""
        return self.directory / "hold"

    def words(self, out: Path, *more: str) -> list[str]:
        """The command line."""
        compiler = shlex.join([str(self.directory / "standin_compiler.sh"), "{input.mlir}"])
        start = [sys.executable, "-m", "deepinfer_neuron", "bisect", str(self.directory / "module.mlir")]
        return [*start, "--command", compiler, "--out", str(out), *more]

    def run(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(self.words(out, *more), capture_output=True, text=True, check=False, timeout=_LONGEST_S)

    def start(self, out: Path, *more: str) -> subprocess.Popen[str]:
        """Start it in a process group of its own."""
        return start_interruptible(self.words(out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def verdicts(out: Path) -> Counter[str]:
    """How often each candidate was compiled to an end, by its digest."""
    return _logged(out, "ended")


def wait_for_verdicts(process: subprocess.Popen[str], out: Path, count: int) -> None:
    """Wait until the log of a running bisection has so many; fails if it ends before."""
    _wait(process, lambda: _logged(out, "ended").total() >= count)


def wait_for_start(process: subprocess.Popen[str], out: Path) -> None:
    """Wait until a running bisection has started a compiler; fails if it ends before."""
    _wait(process, lambda: _logged(out, "started").total() > 0)


def _logged(out: Path, state: str) -> Counter[str]:
    path = out / "verdicts.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return Counter(line["candidate"] for line in whole if line["state"] == state)


def _wait(process: subprocess.Popen[str], is_there: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_S
    while not is_there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the bisection does not go on"
        time.sleep(0.002)


def facts(result: Path) -> dict[str, Any]:
    """What a result says of the program, without what it cost."""
    content = json.loads((result / "result.json").read_text())
    return {name: content[name] for name in _FACTS}


def programs(result: Path) -> dict[str, bytes]:
    """The programs of a result by file name."""
    return {path.name: path.read_bytes() for path in result.iterdir() if ".mlir" in path.name}


def kept_lines(content: dict[str, Any]) -> Sequence[str]:
    """The model's lines of what was kept."""
    return [one["line"] for one in content["kept"] if not one["is_result"]]
