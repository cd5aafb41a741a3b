"""How far a bisection is, while it runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..bisection.report.facts import duration
from ..bisection.search.progress import SearchProgress
from .console import print_now

if TYPE_CHECKING:
    from rich.table import Table

QUIET_SECONDS = 60.0
"""Without a terminal there is a line for everything that changes, and one after so many seconds without."""


@contextmanager
def watch_bisection() -> Iterator[Callable[[SearchProgress], None]]:
    """Yields what to call with every event: it keeps a table on a terminal and prints lines elsewhere."""
    if not sys.stderr.isatty():
        yield LinePrinter().show
        return
    from rich.console import Console
    from rich.live import Live

    latest = LatestEvent()
    with Live(get_renderable=latest.table, console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield latest.show


class LinePrinter:
    """Prints a line for each new stage, smaller candidate and other failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: SearchProgress | None = None

    def show(self, event: SearchProgress) -> None:
        """Print the event if it says something new."""
        with self._lock:
            if self._last is None or _differs(self._last, event):
                self._last = event
                print_now(line_of(event))


class LatestEvent:
    """The event that a terminal shows, whose clock goes on while a probe runs."""

    def __init__(self) -> None:
        self._shown: tuple[SearchProgress, float] | None = None

    def show(self, event: SearchProgress) -> None:
        """Take over the event."""
        self._shown = (event, time.monotonic())

    def table(self) -> Table:
        """The latest event, as of now."""
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        if self._shown is not None:
            event, received = self._shown
            for name, value in rows_of(event, event.seconds + time.monotonic() - received):
                table.add_row(name, value)
        return table


def line_of(event: SearchProgress) -> str:
    """An event on one line."""
    return "; ".join(f"{name} {value}" for name, value in rows_of(event, event.seconds))


def rows_of(event: SearchProgress, seconds: float) -> list[tuple[str, str]]:
    """Names and values of an event when ``seconds`` have passed since the bisection began."""
    rows = [
        ("stage", event.stage),
        ("trying", f"{event.size:,} operations"),
        ("smallest failing", f"{event.best:,} of {event.total:,}"),
        ("probes", f"{event.probes:,} and {event.known:,} known answers"),
        ("time", duration(seconds)),
    ]
    left = []
    if event.budget_seconds is not None:
        left.append(duration(max(0.0, event.budget_seconds - seconds)))
    if event.budget_probes is not None:
        left.append(f"{max(0, event.budget_probes - event.probes):,} probes")
    if left:
        rows.append(("budget left", " and ".join(left)))
    if event.others:
        rows.append(("also seen", f"{event.others} other failure{'s' if event.others > 1 else ''}"))
    return rows


def _differs(last: SearchProgress, event: SearchProgress) -> bool:
    changed = (last.stage, last.best, last.others) != (event.stage, event.best, event.others)
    return changed or event.seconds - last.seconds >= QUIET_SECONDS
