"""What is compiling, what was found and what failed, while it happens and when it is over."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..reporting import Table
from .console import print_now

if TYPE_CHECKING:
    from ..compiler.programs.stored_programs import StoredProgram

WORDS = {"hit": "hit", "shared hit": "shared hit", "waited": "made by another process", "made": "compiled"}
"""What people are told of a program that there is."""


@contextmanager
def show_programs() -> Iterator[Callable[[StoredProgram], None]]:
    """Yields what to call with every change of a program: it shows a bar on a terminal and prints lines elsewhere."""
    if not sys.stderr.isatty():
        yield print_change
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        seen: dict[str, StoredProgram] = {}
        lock = threading.Lock()

        def show(program: StoredProgram) -> None:
            with lock:
                seen[program.title] = program
                done = sum(one.is_done for one in seen.values())
                bar.update(task, completed=done, total=len(seen), description=summary(list(seen.values())))

        yield show


def print_change(program: StoredProgram) -> None:
    """A line for a program that is being compiled, or that nothing more happens to."""
    if program.state == "compiling":
        print_now(f"{program.title}: compiling")
    elif program.state == "failed":
        print_now(f"{program.title}: failed: {program.error.partition(chr(10))[0]}")
    elif program.is_done:
        print_now(f"{program.title}: {WORDS[program.state]} in {program.seconds:.1f} s, {program.bytes:,} bytes")


def summary(programs: Sequence[StoredProgram]) -> str:
    """Hits, failures and what is compiling now, in one line."""
    states = Counter(program.state for program in programs)
    found = states["hit"] + states["shared hit"] + states["waited"]
    compiling = [program.title for program in programs if program.state == "compiling"]
    parts = [f"{found} hits"]
    if states["failed"]:
        parts.append(f"{states['failed']} failed")
    if compiling:
        parts.append(f"compiling {', '.join(compiling)}")
    return "; ".join(parts)


def program_table(store: str, programs: Sequence[StoredProgram]) -> Table:
    """One row a program: the first region that calls it, how many do, how it was come by, seconds and bytes."""
    rows = tuple(
        (
            program.name[:12] or "-",
            program.title,
            program.uses,
            WORDS.get(program.state, program.state),
            f"{program.seconds:.1f}",
            program.bytes,
        )
        for program in programs
    )
    columns = ("program", "first used by", "uses", "how", "seconds", "bytes")
    return Table(f"{store}: {len(programs)} programs", columns, rows)
