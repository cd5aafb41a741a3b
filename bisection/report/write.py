"""Writes a result: programs, ``repro.py``, and the reports about them."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ...errors import CompileCancelledError
from ...files import write_bytes, write_report
from ..search.result import BisectResult
from .minimal_graph import nodes_of
from .page import report_page
from .program_files import ProgramFile, program_files
from .recipe import Recipe
from .report_text import report_text
from .repro import ReproRun, rerun_words, run_repro, write_repro
from .result_json import result_json

RESULT = "result.json"

Rerun = Callable[[Path, Sequence[str]], ReproRun]
"""Runs the script in a directory, with more words of its command line."""


@dataclass(frozen=True)
class WrittenResult:
    """Where a result is, and what came of its script; None if that was ended before it said anything."""

    directory: Path
    run: ReproRun | None


def write_result(
    result: BisectResult, directory: Path, recipe: Recipe, rerun: Rerun | None = run_repro
) -> WrittenResult:
    """Write everything, run the script, and only then give the directory its name: it is there whole or not at all.

    A directory that has something in it is left alone: the result gets the next free name, such as ``bisect-2``.

    Args:
        result: what was found.
        directory: where to write it.
        recipe: how the compiler is started, see ``make_recipe``.
        rerun: runs ``repro.py``; None not to run it.

    Raises:
        KeyboardInterrupt: after everything is written, if it came while the script ran.
        OSError: the files cannot be written; nothing is left of them.
    """
    partial = _make_partial(directory)
    interrupt: KeyboardInterrupt | None = None
    run: ReproRun | None = None
    try:
        programs = program_files(result)
        for one in programs:
            (partial / one.name).parent.mkdir(exist_ok=True)
            write_bytes(partial / one.name, one.content)
        write_repro(result, recipe, partial)
        try:
            run = rerun(partial, rerun_words(recipe)) if rerun else None
        except CompileCancelledError:
            run = None
        except KeyboardInterrupt as error:
            interrupt = error
        _write_reports(result, recipe, run, programs, partial)
        final = _publish(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if interrupt:
        raise interrupt
    return WrittenResult(final, run)


def _make_partial(directory: Path) -> Path:
    """A new directory beside the wished one, so that it can be renamed."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}-{secrets.token_hex(4)}")
    partial.mkdir()
    return partial


def _write_reports(
    result: BisectResult, recipe: Recipe, run: ReproRun | None, programs: Sequence[ProgramFile], directory: Path
) -> None:
    nodes = nodes_of(result.reduction.minimal)
    texts = [(one.title, one.name, one.content.decode()) for one in programs if one.title]
    write_bytes(directory / "report.md", report_text(result, recipe, run, nodes, texts).encode())
    write_bytes(directory / "report.html", report_page(result, recipe, run, nodes, texts).encode())
    names = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    content = result_json(result, recipe, run, sorted([*names, RESULT]))
    write_report(directory / RESULT, content)


def _publish(partial: Path, directory: Path) -> Path:
    """Rename to the wished name, or to the first numbered one that is free; an empty directory is free."""
    for number in count(1):
        final = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
        try:
            return partial.rename(final)
        except OSError:
            if not final.exists():
                raise
    raise AssertionError("numbers do not end")
