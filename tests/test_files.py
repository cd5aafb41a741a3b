"""A file is written whole or not at all, whoever else writes it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from deepinfer_neuron.files import write_bytes, write_report, written_whole

WRITE_OFTEN = """
import sys
from pathlib import Path
from deepinfer_neuron.files import write_bytes
for _ in range(300):
    write_bytes(Path(sys.argv[1]), sys.argv[2].encode() * 100_000)
"""


def test_two_processes_at_once_leave_the_file_of_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100_000)
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_OFTEN, path, letter]) for letter in "ab"]
    whole = {b"a" * 100_000, b"b" * 100_000}
    while any(writer.poll() is None for writer in writers):
        assert path.read_bytes() in whole
    assert [writer.returncode for writer in writers] == [0, 0]
    assert path.read_bytes() in whole
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"older")
    with pytest.raises(KeyboardInterrupt), written_whole(path) as partial:
        partial.write_bytes(b"half")
        raise KeyboardInterrupt
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"file": b"older"}


def test_a_write_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_bytes(tmp_path / "taken", b"content")
    assert [one.name for one in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_bytes(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_report_is_json_and_none_is_written_for_none(tmp_path: Path) -> None:
    write_report(tmp_path / "report.json", {"one": [1]})
    write_report(None, {"one": [1]})
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [
        ("report.json", '{\n  "one": [\n    1\n  ]\n}\n')
    ]
