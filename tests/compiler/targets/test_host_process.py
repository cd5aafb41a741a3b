"""XLA as a program of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stablehlo_texts
from deepinfer_neuron.compiler.targets.host_process import main
from deepinfer_neuron.runtime.devices.pjrt_client import client, compile_options, device_list

NEGATE = stablehlo_texts.unary("stablehlo.negate", "tensor<4xf32>")


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, "module.mlir", "program"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def test_a_module_becomes_a_program_that_loads_and_torch_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "module.mlir").write_text(NEGATE)
    code = (
        "import sys\nfrom deepinfer_neuron.compiler.targets.host_process import main\n"
        "status = main(*sys.argv[1:])\nprint(status, 'torch' in sys.modules)"
    )
    done = run(code, tmp_path)
    assert (done.stdout, done.stderr) == ("0 False\n", "")
    assert client().deserialize_executable((tmp_path / "program").read_bytes(), device_list(), compile_options())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (stablehlo_texts.custom_call("Nowhere"), "error: NOT_FOUND: No registered implementation"),
        (NEGATE.replace("tensor<4xf32>", "tensor<?xf32>"), "error: INVALID_ARGUMENT: .*Unbounded dynamism"),
        ("no module", "error: .*custom op 'no' is unknown"),
    ],
)
def test_a_refusal_is_one_error_and_no_program(text, message, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module.mlir").write_text(text)
    assert main("module.mlir", "program") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.match(message, printed.err)
    assert not (tmp_path / "program").exists()


def test_a_module_that_is_not_there_is_an_error_too(tmp_path, capsys) -> None:
    assert main(str(tmp_path / "none.mlir"), "program") == 1
    assert "No such file" in capsys.readouterr().err
