"""What people see of programs while they are compiled and afterwards."""

from __future__ import annotations

import io
import sys

import pytest
from deepinfer_neuron.cli.compile_progress import print_change, program_table, show_programs, summary
from deepinfer_neuron.compiler.programs.stored_programs import StoredProgram

DIGEST = "ab" * 32
PROGRAMS = [
    StoredProgram("embed", 8, DIGEST, "made", 1.25, 54321, uses=1),
    StoredProgram("layers.0.attention", 8, DIGEST, "shared hit", 0.01, 7, uses=2),
    StoredProgram("layers.0.experts", 8, DIGEST, "waited", 2.0, 8, uses=3),
    StoredProgram("layers.1.engram", 8, "", "failed", 0.5, error="refused\nbecause", uses=1),
]
COMPILING = StoredProgram("end", 8, DIGEST, "compiling")
WAITING = StoredProgram("end", 4, DIGEST)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_say_what_starts_and_what_came_of_it(capsys: pytest.CaptureFixture[str]):
    for program in (*PROGRAMS, COMPILING, WAITING):
        print_change(program)
    assert capsys.readouterr().out.splitlines() == [
        "embed of batch 8: compiled in 1.2 s, 54,321 bytes",
        "layers.0.attention of batch 8: shared hit in 0.0 s, 7 bytes",
        "layers.0.experts of batch 8: made by another process in 2.0 s, 8 bytes",
        "layers.1.engram of batch 8: failed: refused",
        "end of batch 8: compiling",
    ]


def test_the_summary_names_what_is_compiling_now():
    assert summary([*PROGRAMS, COMPILING, WAITING]) == "2 hits; 1 failed; compiling end of batch 8"
    assert summary([WAITING]) == "0 hits"


def test_the_table_has_a_row_for_each_program():
    table = program_table("/store", PROGRAMS)
    assert table.title == "/store: 4 programs"
    assert table.columns == ("program", "first used by", "uses", "how", "seconds", "bytes")
    assert table.rows[0] == ("abababababab", "embed of batch 8", 1, "compiled", "1.2", 54321)
    assert table.rows[3] == ("-", "layers.1.engram of batch 8", 1, "failed", "0.5", 0)


def test_a_terminal_gets_a_bar_and_anything_else_lines(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with show_programs() as watch:
        for program in (*PROGRAMS, COMPILING, WAITING):
            watch(program)
    assert "4/6" in terminal.getvalue()
    assert "compiling end of batch 8" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show_programs() as watch:
        assert watch is print_change
