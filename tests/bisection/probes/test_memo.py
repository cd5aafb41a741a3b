"""Verdicts on disk: another process goes on from them, whatever ended the one before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bisect_stand_ins import CRASH
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.verdict import Verdict
from deepinfer_neuron.errors import ArtifactError


def write(path: Path, *verdicts: Verdict, compiler: str = "one") -> None:
    with Memo(path, compiler) as memo:
        for verdict in verdicts:
            memo.start("candidate")
            memo.end("candidate", verdict)


def test_verdicts_are_there_again_run_by_run(tmp_path: Path):
    verdicts = [Verdict(CRASH, 1.5, "said\nthis"), Verdict(None, 2.0)]
    write(tmp_path / "log.jsonl", *verdicts)
    with Memo(tmp_path / "log.jsonl", "one") as memo:
        assert memo.verdicts("candidate") == verdicts
        assert memo.verdicts("another") == []
        assert memo.interrupted("candidate") == 0


def test_verdicts_of_another_compiler_are_kept_apart(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    write(path, Verdict(CRASH, 1.0))
    write(path, Verdict(None, 1.0), compiler="two")
    with Memo(path, "two") as memo:
        assert memo.verdicts("candidate") == [Verdict(None, 1.0)]
    with Memo(path, "one") as memo:
        assert memo.verdicts("candidate") == [Verdict(CRASH, 1.0)]


def test_a_torn_line_is_cut_off_and_the_probe_counts_as_interrupted(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    write(path, Verdict(CRASH, 1.0), Verdict(None, 2.0))
    path.write_bytes(path.read_bytes()[:-7])
    with Memo(path, "one") as memo:
        assert memo.verdicts("candidate") == [Verdict(CRASH, 1.0)]
        assert memo.interrupted("candidate") == 1
        memo.start("candidate")
        memo.end("candidate", Verdict(None, 3.0))
    with Memo(path, "one") as memo:
        assert memo.verdicts("candidate") == [Verdict(CRASH, 1.0), Verdict(None, 3.0)]


def test_a_cancelled_probe_is_not_an_interrupted_one(tmp_path: Path):
    with Memo(tmp_path / "log.jsonl", "one") as memo:
        memo.start("candidate")
        memo.cancel("candidate")
    with Memo(tmp_path / "log.jsonl", "one") as memo:
        assert memo.interrupted("candidate") == 0


def test_long_output_keeps_its_end(tmp_path: Path):
    write(tmp_path / "log.jsonl", Verdict(CRASH, 1.0, "x" * 100_000 + "the error"))
    assert (tmp_path / "log.jsonl").stat().st_size < 10_000
    with Memo(tmp_path / "log.jsonl", "one") as memo:
        assert memo.verdicts("candidate")[0].log.endswith("the error")


@pytest.mark.parametrize(
    "line", ["no json", "[]", "{}", json.dumps({"schema": 99, "compiler": "one", "candidate": "x", "state": "started"})]
)
def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path, line: str):
    path = tmp_path / "log.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ArtifactError, match=r"log\.jsonl, line 1.*--out"):
        Memo(path, "one")
    assert path.read_text() == f"{line}\n"


HOLD = """
import sys
from pathlib import Path
from deepinfer_neuron.bisection.probes.memo import Memo
memo = Memo(Path(sys.argv[1]), "one")
print("holding", flush=True)
sys.stdin.read()
"""


def test_two_processes_do_not_share_a_log_and_a_killed_one_lets_go(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "holding\n"
        with pytest.raises(ArtifactError, match="in use"):
            Memo(path, "one")
        holder.kill()
    with Memo(path, "one") as memo:
        assert memo.verdicts("candidate") == []
