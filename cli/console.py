"""What every command shares: one clean line for an expected error, a JSON report, progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..errors import DeepInferNeuronError, InputError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

Progress = Callable[[int, int], None]
"""Called with (done, total) of whatever the command counts."""


@contextmanager
def clean_errors() -> Iterator[None]:
    """Print an expected or file system error to stderr and exit with code 1; any other keeps its traceback."""
    try:
        yield
    except (DeepInferNeuronError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """A bar on stderr for work that reports (done, total); silent when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_now(line: str) -> None:
    """A line on stdout at once, for work that takes minutes."""
    print(line, flush=True)


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """A line and a table on stdout; numbers are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    print(title)
    table = Table()
    for column, value in zip(columns, rows[0] if rows else columns, strict=True):
        table.add_column(column, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    console = Console()
    # A table that is cut to a narrow terminal hides digits: let the terminal wrap it instead.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def parse_sizes(text: str) -> list[int]:
    """Batch sizes from ``1,2,4``; raises InputError for anything but positive whole numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"batch sizes {text!r}: expected positive whole numbers separated by commas, such as 1,2,4,8")
    return sorted({int(part) for part in parts})
