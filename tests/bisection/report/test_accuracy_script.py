"""A program that computes something else is run again from its files alone."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bisect_results import make_result, package_parent, shell_recipe, traced
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report.accuracy_case import AccuracyCase, load_case, save_case
from deepinfer_neuron.bisection.report.accuracy_script import run_script
from deepinfer_neuron.bisection.report.repro import run_repro, write_repro
from deepinfer_neuron.bisection.report.write import write_result
from deepinfer_neuron.errors import ArtifactError

DIFFERENT = Signature("different", "", "result #")
WORDS = ["--package", str(package_parent())]


def case(error: float = 0.0, target: str = "host") -> AccuracyCase:
    """Cache and x of ``traced()``; the first result is expected ``error`` away from where it is."""
    cache, x = torch.arange(4.0), torch.linspace(-1, 1, 4)
    expected = (torch.sin(x) + error, cache + torch.sin(x))
    tolerance = [torch.full((4,), 1e-5, dtype=torch.float64)] * 2
    return AccuracyCase(target, (cache, x), expected, tolerance, {1: 0})


def result_and_recipe(accuracy: AccuracyCase, module: bytes | None = None):
    minimal = traced()
    result = make_result(minimal=minimal, smallest_module=minimal, signature=DIFFERENT)
    return result, shell_recipe("", module=module or minimal.module, accuracy=accuracy)


def write(tmp_path: Path, accuracy: AccuracyCase, module: bytes | None = None) -> Path:
    return write_repro(*result_and_recipe(accuracy, module), tmp_path)


def run(script: Path, *words: str) -> int:
    """The status of a script as this process carries it out, which spares it to load everything again."""
    written = runpy.run_path(str(script), run_name="read")
    return run_script(str(script), written["MODULE"], written["SHA256"], written["TENSORS"], words)


def test_a_wrong_result_is_reproduced(tmp_path):
    write(tmp_path, case(0.5))
    end = run_repro(tmp_path, WORDS)
    assert end.is_reproduced, end.output
    assert "result 0: 4 of 4 elements are off" in end.output
    assert "result 1" not in end.output


def test_a_right_result_is_not(tmp_path, capsys):
    assert run(write(tmp_path, case())) == 1
    assert "NOT REPRODUCED: it computes what it should" in capsys.readouterr().out


def test_a_module_that_does_not_compile_is_another_failure(tmp_path):
    assert run(write(tmp_path, case(0.5), b"no module")) == 2


def test_a_device_that_is_not_there_is_no_compiler(tmp_path):
    assert run(write(tmp_path, case(0.5, "trn2"))) == 3


def test_what_goes_wrong_otherwise_is_no_answer(tmp_path):
    wrong = case(0.5)
    assert run(write(tmp_path, replace(wrong, tolerance=[torch.zeros(3, dtype=torch.float64)] * 2))) == 4
    assert run_repro(tmp_path, [*WORDS, "--no-such"]).status == 4


def test_without_its_tensors_it_says_what_it_needs(tmp_path, capsys):
    script = write(tmp_path, case(0.5))
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    assert run(script) == 4
    assert "belongs beside the script" in capsys.readouterr().err


def test_the_whole_result_of_a_miscompilation(tmp_path):
    written = write_result(result_and_recipe(case(0.5))[0], tmp_path / "bisect", result_and_recipe(case(0.5))[1])
    assert written.run.is_reproduced, written.run.output
    assert len(list(written.directory.glob("*.safetensors"))) == 1


def test_not_a_number_is_right_where_it_is_expected():
    nan, inf = float("nan"), float("inf")
    both = torch.tensor([nan, inf, -inf, 1.0])
    one = AccuracyCase("host", (torch.zeros(4), both), (torch.sin(both), torch.sin(both)), case().tolerance, {1: 0})
    assert one.differences(traced().module) == []
    finite = replace(one, expected=(torch.zeros(4), torch.sin(both)))
    (line,) = finite.differences(traced().module)
    assert line.startswith("result 0: 4 of 4 elements are off, the worst at [0]: nan, expected 0.0")


def test_cases_come_back_as_they_were(tmp_path):
    saved = AccuracyCase(
        "iree",
        (torch.ones(2, 3, dtype=torch.bfloat16).T,),
        (torch.arange(3),),
        (torch.zeros(3).double(),),
        {0: 0},
        True,
    )
    loaded = load_case(tmp_path / save_case(saved, tmp_path))
    assert (loaded.target, loaded.aliases, loaded.runtime_zero) == ("iree", {0: 0}, True)
    for ours, theirs in ((saved.inputs, loaded.inputs), (saved.expected, loaded.expected)):
        assert [one.dtype for one in ours] == [one.dtype for one in theirs]
        assert all(map(torch.equal, ours, theirs))


def test_damaged_cases_are_refused(tmp_path):
    path = tmp_path / save_case(case(), tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="damaged"):
        load_case(path)
    with pytest.raises(ArtifactError, match="beside the script"):
        load_case(tmp_path / "none.safetensors")
