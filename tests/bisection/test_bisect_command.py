"""``bisect`` as it is typed: killed and gone on with, in parallel, interrupted, in a hurry, and twice at once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from bisect_commands import BisectCommand, facts, kept_lines, programs, verdicts, wait_for_start, wait_for_verdicts

SLOW_S = 0.05
"""What a run of the stand-in takes where the command must be met in the middle."""


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an undisturbed bisection."""
    directory = tmp_path_factory.mktemp("serial")
    done = BisectCommand(directory).write().run(directory / "out", "--json", str(directory / "run.json"))
    assert done.returncode == 0, done.stderr
    assert json.loads((directory / "run.json").read_text())["reproduced"]
    return directory / "out"


def test_the_planted_pair_is_found_with_its_lines(serial: Path):
    found = facts(serial / "result")
    assert kept_lines(found) == ["model/front.py:10", "model/back.py:32"]
    assert found["signature"] == {"outcome": "error", "code": "", "message": "no room for both"}
    assert found["is_minimal"]
    assert found["complete"]
    text = programs(serial / "result")["smallest.mlir"].decode()
    assert "stablehlo.tanh" in text
    assert "stablehlo.cosine" in text
    assert "stablehlo.sine" not in text


def test_no_candidate_is_compiled_twice_without_need(serial: Path):
    assert sorted(verdicts(serial).values())[-3:] == [1, 2, 2], "the whole program and the minimal one run twice"


@pytest.mark.slow
def test_two_jobs_find_what_one_finds(tmp_path: Path, serial: Path):
    done = BisectCommand(tmp_path).write().run(tmp_path / "out", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert facts(tmp_path / "out" / "result") == facts(serial / "result")
    assert programs(tmp_path / "out" / "result") == programs(serial / "result")


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("every", [9, pytest.param(3, marks=pytest.mark.slow)], ids=["every ninth", "every third"])
def test_a_killed_bisection_goes_on_and_asks_nothing_twice(tmp_path: Path, serial: Path, jobs: int, every: int):
    slow, out = BisectCommand(tmp_path, SLOW_S).write(), tmp_path / "out"
    for count in range(every, verdicts(serial).total() - every, every):
        process = slow.start(out, "--jobs", str(jobs))
        wait_for_verdicts(process, out, count)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.communicate()
        assert not (out / "result").exists()
    known = verdicts(out)
    done = slow.run(out, "--jobs", str(jobs), "--json", str(tmp_path / "run.json"))
    assert done.returncode == 0, done.stderr
    assert facts(out / "result") == facts(serial / "result")
    assert programs(out / "result") == programs(serial / "result")
    after = verdicts(out)
    assert json.loads((tmp_path / "run.json").read_text())["probes"] >= (after - known).total()
    if jobs == 1:
        assert after == verdicts(serial)
    else:
        assert all(after[one] <= max(verdicts(serial)[one], 1) for one in after)


def test_ctrl_c_writes_the_best_so_far_and_the_same_command_goes_on(tmp_path: Path, serial: Path):
    slow, out = BisectCommand(tmp_path, SLOW_S).write(), tmp_path / "out"
    process = slow.start(out)
    wait_for_verdicts(process, out, 12)
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert output.splitlines()[-1].startswith("Verdict: not finished: 40 operations are cut to")
    assert "Traceback" not in errors
    best = facts(out / "result")
    assert not best["complete"]
    assert {"model/front.py:10", "model/back.py:32"} <= set(kept_lines(best))
    assert len(kept_lines(best)) < 40
    assert f"{out / 'result'}: report.html, report.md, repro.py (reproduced)" in output
    done = slow.run(out)
    assert done.returncode == 0, done.stderr
    assert facts(out / "result-2") == facts(serial / "result")
    assert verdicts(out) == verdicts(serial)


def test_ctrl_c_before_the_failure_was_seen_leaves_no_result(tmp_path: Path):
    command, out = BisectCommand(tmp_path).write(), tmp_path / "out"
    command.hold.touch()
    process = command.start(out)
    wait_for_start(process, out)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "interrupted: the same command goes on from what is known\n"
    assert not (out / "result").exists()


@pytest.mark.slow
def test_a_budget_ends_with_the_best_so_far(tmp_path: Path, serial: Path):
    command, out = BisectCommand(tmp_path).write(), tmp_path / "out"
    done = command.run(out, "--budget", "8")
    assert done.returncode == 3, done.stderr
    assert done.stdout.endswith("stopped early with the best so far; next: the same command goes on from there\n")
    content = json.loads((out / "result" / "result.json").read_text())
    assert (content["complete"], content["probes"]) == (False, 8)
    assert 2 < len(kept_lines(content)) < 40
    done = command.run(out, "--budget", "10m")
    assert done.returncode == 0, done.stderr
    assert facts(out / "result-2") == facts(serial / "result")
    assert verdicts(out) == verdicts(serial)


@pytest.mark.slow
def test_a_budget_that_does_not_reach_the_failure_says_so(tmp_path: Path):
    done = BisectCommand(tmp_path).write().run(tmp_path / "out", "--budget", "1")
    assert done.returncode == 3
    assert "the budget is spent" in done.stderr
    assert "allow more" in done.stderr


@pytest.mark.slow
def test_a_second_bisection_in_one_directory_is_refused_and_disturbs_nothing(tmp_path: Path, serial: Path):
    command, out = BisectCommand(tmp_path).write(), tmp_path / "out"
    command.hold.touch()
    first = command.start(out)
    wait_for_start(first, out)
    second = command.run(out)
    command.hold.unlink()
    assert second.returncode == 1
    assert "is in use: another bisection writes there" in second.stderr
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors
    assert facts(out / "result") == facts(serial / "result")
    assert verdicts(out) == verdicts(serial)
