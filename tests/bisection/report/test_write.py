"""What a bisection leaves behind is whole, in a directory of its own, and says what it is."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bisect_results import accepted, make_result, shell_recipe, sorting, standin_recipe, traced
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report import write
from deepinfer_neuron.bisection.report.recipe import make_recipe
from deepinfer_neuron.bisection.report.repro import ReproRun, run_repro
from deepinfer_neuron.bisection.report.write import write_result
from deepinfer_neuron.bisection.subjects.render import render
from deepinfer_neuron.compiler.hlo.wire import read_fields
from deepinfer_neuron.compiler.targets.command import CompilerCommand
from deepinfer_neuron.compiler.targets.process import ProcessLimits

PROGRAMS = {"minimal.mlir", "minimal.mlirbc", "minimal.hlo.pb", "good.mlir", "also_seen/1.mlir", "also_seen/1.txt"}
REPORTS = {"repro.py", "report.md", "report.html", "result.json"}


def files_of(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def quickly(directory: Path, words: Sequence[str]) -> ReproRun:
    return ReproRun(0, "REPRODUCED\n")


def interrupted(directory: Path, words: Sequence[str]) -> ReproRun:
    raise KeyboardInterrupt


def test_everything_is_there_and_the_script_was_run(tmp_path):
    written = write_result(make_result(), tmp_path / "bisect", standin_recipe(tmp_path / "bin"))
    assert written.directory == tmp_path / "bisect"
    assert written.run.is_reproduced, written.run.output
    assert files_of(written.directory) == PROGRAMS | REPORTS
    report = json.loads((written.directory / "result.json").read_text())
    assert report["repro"] == {"status": 0, "meaning": "reproduced"}
    assert set(report["files"]) == PROGRAMS | REPORTS
    assert [one["name"] for one in report["kept"]] == ["%op_3", "%op_8"]
    assert report["minimal"] == {"size": 1, "sha256": sorting().digest}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "bisect"]
    assert run_repro(written.directory).is_reproduced


def test_a_script_that_does_not_reproduce_is_not_called_a_success(tmp_path):
    recipe = standin_recipe(tmp_path / "bin", accepted().module)
    written = write_result(make_result(), tmp_path / "bisect", recipe)
    assert not written.run.is_reproduced
    for name in ("report.md", "report.html", "result.json"):
        assert "not reproduced: it compiles" in (written.directory / name).read_text(), name


def test_programs_are_in_the_forms_that_they_are_named_after(tmp_path):
    minimal = traced()
    result = make_result(minimal=minimal, smallest_module=minimal)
    directory = write_result(result, tmp_path / "bisect", shell_recipe("exit 1"), quickly).directory
    assert re.search(r"aten\.sin\.default\(%x_1\) : f32\[4\]", (directory / "minimal.fx.txt").read_text())
    assert "stablehlo.sine" in (directory / "minimal.mlir").read_text()
    assert (directory / "minimal.mlirbc").read_bytes() == render(minimal, "mlir")
    assert read_fields((directory / "minimal.hlo.pb").read_bytes())
    assert not (directory / "smallest.mlir").exists()


def test_a_module_that_was_reduced_further_is_written_beside_it(tmp_path):
    result = make_result(minimal=traced(), smallest_module=sorting())
    directory = write_result(result, tmp_path / "bisect", shell_recipe("exit 1"), quickly).directory
    assert "sort" in (directory / "smallest.mlir").read_text()
    assert "sort" not in (directory / "minimal.mlir").read_text()
    assert "reduced further" in (directory / "report.md").read_text()


def test_another_run_is_not_overwritten(tmp_path):
    recipe = shell_recipe("exit 1")
    (tmp_path / "bisect").mkdir()
    first = write_result(make_result(), tmp_path / "bisect", recipe, quickly).directory
    before = (first / "report.md").read_bytes()
    second = write_result(make_result(subject="another"), tmp_path / "bisect", recipe, quickly).directory
    (tmp_path / "bisect-3").write_text("a file")
    third = write_result(make_result(subject="another"), tmp_path / "bisect", recipe, quickly).directory
    assert [one.name for one in (first, second, third)] == ["bisect", "bisect-2", "bisect-4"]
    assert (first / "report.md").read_bytes() == before
    assert (tmp_path / "bisect-3").read_text() == "a file"


def test_nothing_is_left_of_a_result_that_cannot_be_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "report_page", full)
    with pytest.raises(OSError, match="No space left"):
        write_result(make_result(), tmp_path / "bisect", shell_recipe("exit 1"), quickly)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_script_runs_leaves_the_result(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_result(make_result(), tmp_path / "bisect", shell_recipe("exit 1"), interrupted)
    assert files_of(tmp_path / "bisect") == PROGRAMS | REPORTS
    assert "was not run" in (tmp_path / "bisect" / "report.md").read_text()
    assert json.loads((tmp_path / "bisect" / "result.json").read_text())["repro"] is None


def test_a_script_that_takes_too_long_is_not_waited_for(tmp_path):
    recipe = shell_recipe("sleep 600")
    start = time.monotonic()
    written = write_result(
        make_result(), tmp_path / "bisect", recipe, lambda one, words: run_repro(one, words, seconds=1)
    )
    assert written.run is None
    assert time.monotonic() - start < 300


def test_the_recipe_is_that_of_the_probes():
    compiler = CompilerCommand(
        "cc", ("cc", "{input}"), "module.mlir", "", "text", "cc 1", environment={"A": "b"}, log_name="log"
    )
    result = make_result(minimal=traced(), smallest_module=sorting())
    recipe = make_recipe(result, compiler, ProcessLimits(seconds=5, memory_bytes=6), "code")
    assert recipe.module == render(sorting(), "text")
    assert (recipe.command, recipe.input_name, recipe.output_name) == (("cc", "{input}"), "module.mlir", "")
    assert (recipe.environment, recipe.log_name, recipe.match) == ({"A": "b"}, "log", "code")
    assert (recipe.seconds, recipe.memory_bytes) == (5, 6)


def test_a_compiler_whose_exit_status_alone_counts(tmp_path):
    recipe = shell_recipe("exit 0", output_name="")
    written = write_result(make_result(signature=Signature("error", "", "x")), tmp_path / "bisect", recipe)
    assert written.run.meaning == "not reproduced: it compiles"


def test_the_directory_has_usual_permissions(tmp_path):
    directory = write_result(make_result(), tmp_path / "bisect", shell_recipe("exit 1"), quickly).directory
    (tmp_path / "usual").mkdir()
    assert directory.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert os.access(directory / "repro.py", os.X_OK)


def test_equal_results_give_equal_files(tmp_path):
    recipe = shell_recipe("exit 1")
    first, second = (
        write_result(make_result(), tmp_path / name, recipe, quickly).directory for name in ("first", "second")
    )
    for name in files_of(first):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_nothing_but_the_programs_differs_with_the_graph(tmp_path):
    with_graph = make_result(minimal=traced())
    without = make_result(minimal=replace(traced(), graph=None))
    first = write_result(with_graph, tmp_path / "first", shell_recipe("exit 1"), quickly).directory
    second = write_result(without, tmp_path / "second", shell_recipe("exit 1"), quickly).directory
    assert files_of(first) - files_of(second) == {"minimal.fx.txt"}
