"""``repro.py``: a script that repeats the failure with Python and the compiler alone, and its run in a new process."""

from __future__ import annotations

import base64
import hashlib
import math
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import CompileCancelledError
from ...files import write_bytes
from ..search.result import BisectResult
from . import standalone
from .accuracy_case import save_case
from .recipe import Recipe
from .script_source import script_source
from .standalone import Case

SCRIPT = "repro.py"
EMBEDDED_BYTES = 192 << 10
"""Larger modules are a file beside the script: editors and trackers do not take longer ones."""

MEANINGS = {
    standalone.REPRODUCED: "reproduced",
    standalone.COMPILED: "not reproduced: it compiles",
    standalone.OTHER_FAILURE: "another failure",
    standalone.NO_COMPILER: "no compiler",
    standalone.UNUSABLE: "the script cannot be run",
}
_MISSED = 0.01
_MOST_RUNS = 50
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class ReproRun:
    """What came of ``repro.py`` in a process of its own.

    Attributes:
        status: its exit status, see ``MEANINGS``; negative if a signal ended it.
        output: what it printed.
    """

    status: int
    output: str

    @property
    def is_reproduced(self) -> bool:
        """Whether the compiler failed as expected."""
        return self.status == standalone.REPRODUCED

    @property
    def meaning(self) -> str:
        """The status in words."""
        return MEANINGS.get(self.status, f"ended with status {self.status}")


def write_repro(result: BisectResult, recipe: Recipe, directory: Path) -> Path:
    """Write the script, and the module beside it if it is large, whole or not at all; returns the script's path."""
    digest = hashlib.sha256(recipe.module).hexdigest()
    if len(recipe.module) > EMBEDDED_BYTES:
        module = f"@{digest}.module"
        write_bytes(directory / module[1:], recipe.module)
    else:
        module = base64.b64encode(recipe.module).decode()
    path, case = directory / SCRIPT, make_case(result, recipe)
    if recipe.accuracy is not None:
        text = accuracy_text(result, recipe, case, module, save_case(recipe.accuracy, directory))
    else:
        text = script_text(result, recipe, case, module)
    write_bytes(path, text.encode())
    path.chmod(0o755)
    return path


def make_case(result: BisectResult, recipe: Recipe) -> Case:
    """What the script runs and expects."""
    wanted = result.failure.signature
    return Case(
        command=tuple(recipe.command),
        input_name=recipe.input_name,
        output_name=recipe.output_name,
        log_name=recipe.log_name,
        environment=dict(recipe.environment),
        seconds=recipe.seconds,
        memory_bytes=recipe.memory_bytes,
        runs=runs_needed(result.failure.last.failed, result.failure.last.runs),
        sha256=hashlib.sha256(recipe.module).hexdigest(),
        match=recipe.match,
        outcome=wanted.outcome,
        code=wanted.code,
        message=wanted.message,
    )


def runs_needed(failed: int, runs: int) -> int:
    """Runs after which a failure that was seen in ``failed`` of ``runs`` is missed once in a hundred times."""
    if failed >= runs:
        return 1
    return min(_MOST_RUNS, math.ceil(math.log(_MISSED) / math.log1p(-max(failed, 1) / runs)))


def script_text(result: BisectResult, recipe: Recipe, case: Case, module: str) -> str:
    """The whole script; ``module`` is base64, or ``@`` and the name of a file beside the script."""
    fields = [f"    {name}={value!r}," for name, value in asdict(case).items()]
    return "\n".join(
        [
            *_header(result, recipe, case, "the compiler, and nothing else"),
            script_source(),
            "",
            "CASE = Case(",
            *fields,
            ")",
            *_assignment(module),
            'if __name__ == "__main__":',
            "    raise SystemExit(main(CASE, MODULE, sys.argv[1:]))",
            "",
        ]
    )


def accuracy_text(result: BisectResult, recipe: Recipe, case: Case, module: str, tensors: str) -> str:
    """The script for a program that computes something else; ``tensors`` is the file with what it is run on."""
    return "\n".join(
        [
            *_header(result, recipe, case, "this project: deepinfer-neuron, installed or named by --package FOLDER"),
            "import sys",
            "",
            *_assignment(module),
            f"SHA256 = {case.sha256!r}",
            f"TENSORS = {tensors!r}",
            "",
            'if __name__ == "__main__":',
            "    words = sys.argv[1:]",
            '    if words[:1] == ["--package"]:',
            "        sys.path.insert(0, words[1])",
            "        words = words[2:]",
            "    try:",
            "        from deepinfer_neuron.bisection.report.accuracy_script import leave, run_script",
            "    except ImportError as error:",
            '        print(f"cannot be run: {error}; name the folder that holds the package with --package")',
            f"        raise SystemExit({standalone.UNUSABLE})",
            "    leave(run_script(__file__, MODULE, SHA256, TENSORS, words))",
            "",
        ]
    )


def _header(result: BisectResult, recipe: Recipe, case: Case, needs: str) -> Iterator[str]:
    """What people read first: no line of it ends a comment, whatever names it holds."""
    size = result.reduction.smallest_module.size
    lines = [
        f"Repeats a failure of {result.compiler.name} on {size} operations of {result.subject}.",
        "",
        f"compiler   {result.compiler.fingerprint}",
        f"command    {' '.join(recipe.command)}",
        f"module     {len(recipe.module):,} bytes, format {recipe.format}, sha256 {case.sha256}",
        f"expected   {standalone.expectation(case)}",
        f"seen       in {result.failure.last} runs",
        "",
        f"python {SCRIPT}            run it and compare",
        f"python {SCRIPT} --runs 20  run it so often and count",
        f"python {SCRIPT} --help     everything else",
        "",
        "exit status: " + "; ".join(f"{status} {meaning}" for status, meaning in MEANINGS.items()),
        f"Needs Python 3.11 or later on Linux, {needs}.",
    ]
    yield "#!/usr/bin/env python3"
    for line in lines:
        yield f"# {''.join(one if one.isprintable() else '?' for one in line)}".rstrip()
    yield ""


def _assignment(module: str) -> Iterator[str]:
    yield "MODULE = ("
    yield from (f'    "{piece}"' for piece in textwrap.wrap(module, 100))
    yield ")"
    yield ""


def rerun_words(recipe: Recipe) -> list[str]:
    """What the script has to be told to be run here."""
    return [] if recipe.accuracy is None else ["--package", str(Path(__file__).parents[3])]


def run_repro(directory: Path, words: Sequence[str] = (), seconds: float | None = None) -> ReproRun:
    """Run the script isolated from this process: it sees no paths of Python's but its own, and works elsewhere.

    Args:
        directory: that holds it.
        words: more of its command line.
        seconds: after which it is ended, with the compiler it runs; None to let it take what its own limits allow.

    Raises:
        CompileCancelledError: it was ended.
    """
    with tempfile.TemporaryDirectory(prefix="deepinfer-neuron-") as elsewhere:
        process = subprocess.Popen(
            [sys.executable, "-I", str((directory / SCRIPT).resolve()), *words],
            cwd=elsewhere,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise CompileCancelledError(
                f"{directory / SCRIPT} did not end within {seconds} s; run it by hand"
            ) from error
        finally:
            _end(process)
    return ReproRun(process.returncode, output.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the script to end, which ends its compiler, and insist."""
    if process.poll() is None:
        process.terminate()
        try:
            process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
