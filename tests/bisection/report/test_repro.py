"""The script that a bug report carries, run as those who receive it do: another process, another directory."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bisect_results import COMPILER, SORT, accepted, make_result, shell_recipe, standin_recipe
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report import standalone
from deepinfer_neuron.bisection.report.repro import EMBEDDED_BYTES, run_repro, runs_needed, write_repro
from deepinfer_neuron.bisection.search.result import Reproduction
from deepinfer_neuron.errors import CompileCancelledError

HANG = "sleep 600 & echo $! > {pids}; sleep 600"


def run(tmp_path: Path, recipe, signature=SORT, words=(), **changes):
    write_repro(make_result(signature=signature, **changes), recipe, tmp_path)
    return run_repro(tmp_path, words, seconds=300)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_refusal_is_reproduced_with_nothing_of_the_package(tmp_path):
    end = run(tmp_path, standin_recipe(tmp_path / "bin"))
    assert end.is_reproduced, end.output
    assert "NCC_EVRF029" in end.output and "ended with status 70; as expected\nREPRODUCED" in end.output
    assert "deepinfer_neuron" not in (tmp_path / "repro.py").read_text().partition("CASE = Case(")[0]


def test_a_module_that_compiles_is_not_reproduced(tmp_path):
    end = run(tmp_path, standin_recipe(tmp_path / "bin", accepted().module))
    assert (end.status, end.meaning) == (1, "not reproduced: it compiles"), end.output


@pytest.mark.parametrize("fault", ["internal", "signal=SIGSEGV", "silent", "garbage", "killed", "none"])
def test_another_failure_is_told_apart(tmp_path, fault):
    module = accepted().module if fault == "none" else None
    end = run(tmp_path, standin_recipe(tmp_path / "bin", module, fault))
    assert (end.status, end.meaning) == (2, "another failure"), end.output


def test_without_a_compiler_it_says_how_to_name_one(tmp_path):
    recipe = standin_recipe(tmp_path / "bin")
    compiler = Path(recipe.command[0])
    write_repro(make_result(), recipe, tmp_path)
    elsewhere = compiler.rename(tmp_path / "other compiler")
    end = run_repro(tmp_path)
    assert (end.status, end.meaning) == (3, "no compiler")
    assert f"{compiler}: No such file or directory; name it with --compiler" in end.output
    assert run_repro(tmp_path, ["--compiler", str(elsewhere)]).is_reproduced


def test_a_file_that_cannot_be_executed_is_no_compiler(tmp_path):
    recipe = standin_recipe(tmp_path / "bin")
    Path(recipe.command[0]).chmod(0o644)
    assert run(tmp_path, recipe).status == 3
    Path(recipe.command[0]).chmod(0o755)
    Path(recipe.command[0]).write_bytes(b"\x7fELF no program")
    assert run_repro(tmp_path).status == 3


@pytest.mark.parametrize(
    ("script", "signature"),
    [
        ("kill -SEGV $$", Signature("signal", "SIGSEGV")),
        (
            "echo 'lower.cc:17: Assertion `rank < 5` failed'; kill -ABRT $$",
            Signature("signal", "SIGABRT", "Assertion `rank < #` failed"),
        ),
        ("echo 'error: no room for v17 at /tmp/a/b'; exit 3", Signature("error", "", "no room for v# at PATH")),
        ("echo 'TypeError: 7 no'; exit 1", Signature("error", "", "TypeError: # no")),
        ("printf 'a\\r...\\033[31m[ERROR] [NCC_ITRF901] axes 17'; exit 70", Signature("error", "ITRF901", "axes #")),
        ("echo '[F137] killed [NCC_EVRF029] why'; exit 70", Signature("error", "EVRF029", "why")),
        ("exit 0", Signature("error", "", "reported success: it wrote no out")),
    ],
)
def test_endings_are_recognised(tmp_path, script, signature):
    end = run(tmp_path, shell_recipe(script), signature)
    assert end.is_reproduced, end.output


@pytest.mark.parametrize(
    ("script", "signature"),
    [
        ("kill -SEGV $$", Signature("signal", "SIGABRT")),
        ("echo 'error: no room'; exit 3", Signature("error", "", "no register")),
        ("echo 'error: no room'; exit 3", Signature("timeout")),
        ("echo '[NCC_EVRF001] a'; echo '[NCC_EVRF029] b'; exit 3", Signature("error", "EVRF029", "b")),
        ("echo 'xTypeError: no'; exit 1", Signature("error", "", "TypeError: no")),
        ("touch $2; exit 7", Signature("error", "", "status 8")),
    ],
)
def test_what_resembles_the_failure_is_another(tmp_path, script, signature):
    assert run(tmp_path, shell_recipe(script), signature).status == 2


def test_the_file_says_what_the_screen_does_not(tmp_path):
    recipe = shell_recipe("echo '[NCC_EVRF029] no sort' > log; exit 1", log_name="log")
    assert run(tmp_path, recipe, Signature("error", "EVRF029", "no sort")).is_reproduced


@pytest.mark.parametrize(("match", "status"), [("signature", 2), ("code", 0), ("any", 0)])
def test_as_much_is_compared_as_the_bisection_did(tmp_path, match, status):
    recipe = shell_recipe("echo '[NCC_EVRF029] another text'; exit 1", match=match)
    assert run(tmp_path, recipe).status == status
    recipe = shell_recipe("echo '[NCC_EVRF001] another text'; exit 1", match=match)
    assert run(tmp_path, recipe).status == (0 if match == "any" else 2)


def test_a_compiler_that_hangs_is_killed_with_its_children(tmp_path):
    script = HANG.format(pids=tmp_path / "pids")
    end = run(tmp_path, shell_recipe(script, seconds=0.5), Signature("timeout"))
    assert end.is_reproduced, end.output
    assert not is_alive(int((tmp_path / "pids").read_text()))


def test_a_compiler_that_takes_all_memory_is_killed(tmp_path):
    recipe = standin_recipe(tmp_path / "bin", fault="memory", memory_bytes=100 << 20)
    assert run(tmp_path, recipe, Signature("out of memory")).is_reproduced


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_script_that_is_ended_ends_its_compiler(tmp_path, number):
    write_repro(make_result(), shell_recipe(HANG.format(pids=tmp_path / "pids")), tmp_path)
    process = subprocess.Popen([sys.executable, "-I", str(tmp_path / "repro.py")], stdout=subprocess.DEVNULL)
    try:
        while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():
            time.sleep(0.02)
    finally:
        os.kill(process.pid, number)
        assert process.wait(30) == 128 + number
    assert not is_alive(int((tmp_path / "pids").read_text()))


def test_waiting_for_a_script_can_be_limited(tmp_path):
    write_repro(make_result(), shell_recipe(HANG.format(pids=tmp_path / "pids")), tmp_path)
    with pytest.raises(CompileCancelledError, match="run it by hand"):
        run_repro(tmp_path, seconds=2)
    assert not is_alive(int((tmp_path / "pids").read_text()))


def test_a_flaky_compiler_is_run_until_it_fails(tmp_path):
    count = tmp_path / "count"
    script = f"echo x >> {count}; touch $2; [ $(wc -l < {count}) -lt 4 ] || {{ echo '[NCC_EVRF029] odd'; exit 1; }}"
    signature = Signature("error", "EVRF029", "odd")
    end = run(tmp_path, shell_recipe(script), signature, last=Reproduction(3, 10))
    assert end.is_reproduced
    assert "failed as expected in 1 of 4 runs" in end.output
    end = run_repro(tmp_path, ["--runs", "3"])
    assert end.is_reproduced
    assert "failed as expected in 3 of 3 runs" in end.output
    count.unlink()
    assert run_repro(tmp_path, ["--runs", "3"]).status == 1


@pytest.mark.parametrize(("failed", "runs", "needed"), [(5, 5, 1), (3, 10, 13), (1, 2, 7), (1, 1000, 50), (0, 3, 12)])
def test_a_rare_failure_gets_more_runs(failed, runs, needed):
    assert runs_needed(failed, runs) == needed


def test_a_large_module_is_a_file_beside_the_script(tmp_path):
    module = os.urandom(EMBEDDED_BYTES + 1)
    recipe = shell_recipe("cmp $1 " + str(tmp_path / "expected") + " && exit 9", module=module)
    (tmp_path / "expected").write_bytes(module)
    assert run(tmp_path, recipe, Signature("error", "", "status 9")).is_reproduced
    assert (tmp_path / "repro.py").stat().st_size < 40_000
    (beside,) = tmp_path.glob("*.module")
    beside.write_bytes(module[:-1])
    end = run_repro(tmp_path)
    assert (end.status, end.meaning) == (standalone.UNUSABLE, "the script cannot be run")
    assert "damaged" in end.output
    beside.unlink()
    assert run_repro(tmp_path).status == standalone.UNUSABLE


def test_the_module_is_the_same_when_it_is_embedded(tmp_path):
    module = bytes(range(256)) * 3
    (tmp_path / "expected").write_bytes(module)
    recipe = shell_recipe(f"cmp $1 {tmp_path / 'expected'} && exit 9", module=module)
    assert run(tmp_path, recipe, Signature("error", "", "status 9")).is_reproduced


def test_wrong_words_are_no_failure_of_the_compiler(tmp_path):
    assert run(tmp_path, shell_recipe("exit 1"), words=["--runs", "0"]).status == standalone.UNUSABLE
    assert run_repro(tmp_path, ["--no-such"]).status == standalone.UNUSABLE


def test_files_are_kept_if_asked_for(tmp_path):
    kept = tmp_path / "kept"
    assert run(
        tmp_path, shell_recipe("echo no; exit 1"), Signature("error", "", "no"), ["--keep", str(kept)]
    ).is_reproduced
    assert (kept / "module.mlir").read_bytes() == b"module"
    assert (kept / "output.txt").read_text() == "no\n"


HOSTILE = 'x"""\'\nraise SystemExit(0)\r\\\x00\x0c\u2028'


def statements(path: Path) -> list[str]:
    """What a script does, but for the values of its two constants."""
    body = ast.parse((path / "repro.py").read_text()).body
    constants = [
        one for one in body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) in ("CASE", "MODULE")
    ]
    assert len(constants) == 2
    return [ast.dump(one) for one in body if one not in constants]


def test_hostile_names_stay_in_comments_and_strings(tmp_path):
    signature = Signature("error", "", HOSTILE)
    compiler = replace(COMPILER, fingerprint=HOSTILE)
    end = run(tmp_path, shell_recipe("exit 5"), signature, subject=HOSTILE, compiler=compiler)
    assert end.status == 2, end.output


def test_no_name_adds_a_statement(tmp_path):
    usual, hostile = tmp_path / "usual", tmp_path / "hostile"
    for path in (usual, hostile):
        path.mkdir()
    write_repro(make_result(), shell_recipe("exit 5"), usual)
    recipe = shell_recipe(
        HOSTILE,
        input_name=HOSTILE,
        output_name=HOSTILE,
        format=HOSTILE,
        log_name=HOSTILE,
        environment={HOSTILE: HOSTILE},
    )
    signature = Signature("error", HOSTILE, HOSTILE)
    compiler = replace(COMPILER, name=HOSTILE, fingerprint=HOSTILE, command=(HOSTILE,))
    write_repro(make_result(signature=signature, subject=HOSTILE, compiler=compiler), recipe, hostile)
    assert statements(hostile) == statements(usual)
