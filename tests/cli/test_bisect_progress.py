"""A bisection that takes hours says where it is."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from deepinfer_neuron.bisection.report.facts import duration
from deepinfer_neuron.bisection.search.progress import SearchProgress
from deepinfer_neuron.cli.bisect_progress import LatestEvent, line_of, watch_bisection
from rich.console import Console

EVENT = SearchProgress(
    "operations",
    size=40,
    best=75,
    total=812,
    probes=19,
    known=6,
    seconds=90.0,
    budget_seconds=None,
    budget_probes=None,
    others=0,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_a_line_tells_what_is_new(capsys):
    with watch_bisection() as watch:
        watch(EVENT)
        watch(replace(EVENT, size=20, probes=20, seconds=95.0))
        watch(replace(EVENT, size=20, best=20, probes=21, seconds=100.0))
        watch(replace(EVENT, stage="results", size=19, best=20, probes=22, seconds=101.0))
        watch(replace(EVENT, stage="results", size=18, best=20, probes=23, seconds=102.0, others=1))
        watch(replace(EVENT, stage="results", size=18, best=20, probes=24, seconds=162.0, others=1))
    assert [line.split("; ")[1:4] for line in capsys.readouterr().out.splitlines()] == [
        ["trying 40 operations", "smallest failing 75 of 812", "probes 19 and 6 known answers"],
        ["trying 20 operations", "smallest failing 20 of 812", "probes 21 and 6 known answers"],
        ["trying 19 operations", "smallest failing 20 of 812", "probes 22 and 6 known answers"],
        ["trying 18 operations", "smallest failing 20 of 812", "probes 23 and 6 known answers"],
        ["trying 18 operations", "smallest failing 20 of 812", "probes 24 and 6 known answers"],
    ]


def test_the_budget_that_is_left_is_never_less_than_nothing():
    assert "budget" not in line_of(EVENT)
    assert "budget left 1 h 58 min and 81 probes" in line_of(replace(EVENT, budget_seconds=7200.0, budget_probes=100))
    assert "budget left 0.0 s and 0 probes" in line_of(replace(EVENT, budget_seconds=60.0, budget_probes=9))
    assert line_of(replace(EVENT, others=2)).endswith("also seen 2 other failures")


def test_a_terminal_shows_the_latest_event():
    console = Console(file=io.StringIO(), width=80)
    latest = LatestEvent()
    console.print(latest.table())
    latest.show(EVENT)
    latest.show(replace(EVENT, best=3, others=1))
    console.print(latest.table())
    shown = console.file.getvalue()
    assert "3 of 812" in shown and "75 of 812" not in shown
    assert "1 other failure" in shown


def test_the_table_is_drawn_on_the_terminal_and_wiped(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with watch_bisection() as watch:
        watch(EVENT)
    drawn = terminal.getvalue()
    assert "75 of 812" in drawn
    assert drawn.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.49, "7.5 s"), (200, "3 min 20 s"), (3600, "1 h 0 min"), (3900.9, "1 h 5 min")]
)
def test_durations_are_read_at_a_glance(seconds, text):
    assert duration(seconds) == text
