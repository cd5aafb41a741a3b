"""What every command shares: exit codes, verdicts, one line for an expected error, tables, progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

import typer

from ..errors import BudgetError, DeepInferNeuronError, InputError
from ..reporting import Count, Table


class ExitCode(IntEnum):
    """What the exit status of a command says."""

    GOOD = 0
    """What was looked for is found, done, or healthy."""

    NOT_GOOD = 1
    """Something differs, is refused, damaged or missing, or could not be done."""

    USAGE = 2
    """The command line contradicts itself; Typer's own code."""

    BUDGET_SPENT = 3
    """Stopped by its budget, with the best so far."""

    INTERRUPTED = 130
    """Ctrl-C, as shells have it."""


_VERDICTS = {
    ExitCode.GOOD: "good",
    ExitCode.NOT_GOOD: "not good",
    ExitCode.BUDGET_SPENT: "not finished",
    ExitCode.INTERRUPTED: "not finished",
}


def print_verdict(found: str, next_step: str, code: ExitCode = ExitCode.GOOD) -> None:
    """The last line of a command: whether that is good, what was found, and what to do next."""
    print(f"Verdict: {_VERDICTS[code]}: {found}; next: {next_step}", flush=True)


def conclude(good: bool, found: str, next_step: str) -> None:
    """Print the verdict, and end the command with ``NOT_GOOD`` unless it is good."""
    code = ExitCode.GOOD if good else ExitCode.NOT_GOOD
    print_verdict(found, next_step, code)
    if not good:
        raise typer.Exit(code)


@contextmanager
def clean_errors(interrupted: str = "interrupted: nothing is left half done") -> Iterator[None]:
    """Print an expected or file system error to stderr and exit; any other keeps its traceback.

    ``interrupted`` is printed after Ctrl-C.
    """
    try:
        yield
    except (DeepInferNeuronError, OSError) as error:
        _exit(f"error: {error}", ExitCode.BUDGET_SPENT if isinstance(error, BudgetError) else ExitCode.NOT_GOOD)
    except KeyboardInterrupt:
        _exit(interrupted, ExitCode.INTERRUPTED)


def _exit(line: str, code: ExitCode) -> NoReturn:
    print(line, file=sys.stderr)
    raise SystemExit(int(code)) from None


def refuse_ignored(context: typer.Context, options: tuple[str, ...], reason: str) -> None:
    """Refuse those ``options`` that were typed, since the command would ignore them; ``reason`` says why.

    Raises BadParameter, which exits with ``USAGE``.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in options and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"it would be ignored: {reason}", param_hint=parameter.opts[0])


@contextmanager
def progress_bar(description: str) -> Iterator[Count]:
    """A bar on stderr for work that reports (done, total); silent when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_now(line: str) -> None:
    """A line on stdout at once, for work that takes minutes."""
    # In one piece: several threads say what they do.
    print(f"{line}\n", end="", flush=True)


def print_table(table: Table) -> None:
    """The title and, if it has rows, the table on stdout; numbers are right-aligned."""
    print(table.title)
    if table.rows:
        _print_rows(table)


def _print_rows(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn

    drawn = Drawn()
    for column, value in zip(table.columns, table.rows[0], strict=True):
        drawn.add_column(column, justify="right" if isinstance(value, int | float) else "left")
    for row in table.rows:
        drawn.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    console = Console()
    # A table that is cut to a narrow terminal hides digits: let the terminal wrap it instead.
    console.width = max(console.width, console.measure(drawn, options=console.options.update(width=1000)).maximum)
    console.print(drawn)


def parse_sizes(text: str) -> list[int]:
    """Batch sizes from ``1,2,4``; raises InputError for anything but positive whole numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"batch sizes {text!r}: expected positive whole numbers separated by commas, such as 1,2,4,8")
    return sorted({int(part) for part in parts})
