"""Number, time, count and dump each pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import fx

from .context import PassContext
from .verify import Invariant

PassFunction = Callable[[fx.GraphModule, PassContext], int]


@dataclass(frozen=True)
class Pass:
    """A function ``(graph module, context) -> changed count``.

    Attributes:
        required: the lowering needs it to have run.
        promises: what holds in every graph from this pass on.
    """

    function: PassFunction
    required: bool = False
    promises: tuple[Invariant, ...] = ()

    @property
    def name(self) -> str:
        """The function's name, which is also its file's."""
        return self.function.__name__


@dataclass(frozen=True)
class PassRecord:
    """One run of a pass: its number in the pipeline, how many places it changed and how long it took."""

    number: int
    name: str
    changed: int
    seconds: float


AfterPass = Callable[[PassRecord, fx.GraphModule, PassContext], None]
"""Called with what a pass did, the graph as it left it and the context of the pipeline."""


def run_pass(
    number: int, entry: Pass, module: fx.GraphModule, context: PassContext, dump_directory: Path | None
) -> PassRecord:
    """Run one pass; with a dump directory, leave ``NN_name.before.txt`` and ``.after.txt`` there."""
    _dump(dump_directory, f"{number:02d}_{entry.name}.before.txt", module)
    start = time.perf_counter()
    changed = entry.function(module, context)
    seconds = time.perf_counter() - start
    _dump(dump_directory, f"{number:02d}_{entry.name}.after.txt", module)
    return PassRecord(number, entry.name, changed, seconds)


def _dump(directory: Path | None, name: str, module: fx.GraphModule) -> None:
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(f"{module.graph}\n")
