"""The commands as a person types them."""

import json
import subprocess
import sys

import pytest
from deepinfer_neuron.cli.app import main
from typer.testing import CliRunner


def run(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_make_and_check_a_nano_checkpoint(tmp_path):
    target, made, checked = tmp_path / "nano", tmp_path / "made.json", tmp_path / "checked.json"
    result = run("tiny", "make", target, "--size", "nano", "--seed", 3, "--json", made)
    assert result.exit_code == 0, result.output
    assert json.loads(made.read_text()) == {"directory": str(target), "size": "nano", "seed": 3}
    result = run("tiny", "check", target, "--json", checked)
    assert result.exit_code == 0, result.output
    assert "3 shards, good" in result.output
    report = json.loads(checked.read_text())
    assert report["tensors"] == 870
    assert sorted(report) == [
        "bytes",
        "directory",
        "draft_stages",
        "dtypes",
        "engram_rows",
        "layers",
        "shards",
        "tensors",
    ]


@pytest.mark.parametrize("damage", ["truncate", "config"])
def test_check_explains_damage_in_one_error_and_fails(tmp_path, damage):
    target = tmp_path / "nano"
    run("tiny", "make", target, "--size", "nano")
    if damage == "truncate":
        shard = target / "model-00002-of-00003.safetensors"
        shard.write_bytes(shard.read_bytes()[:-5])
    else:
        (target / "config.json").unlink()
    result = run("tiny", "check", target, "--json", tmp_path / "report.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "report.json").exists()


def test_make_refuses_a_directory_in_use(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = run("tiny", "make", tmp_path, "--size", "nano", "--overwrite")
    assert result.exit_code == 1
    assert "did not write" in result.stderr


def test_an_unwritable_report_is_an_error_without_traceback(tmp_path):
    result = run("tiny", "make", tmp_path / "nano", "--size", "nano", "--json", tmp_path / "absent" / "report.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_help_loads_neither_torch_nor_jaxlib():
    code = (
        "import sys; from deepinfer_neuron.cli.app import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'jaxlib', 'safetensors'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "tiny" in result.stdout


def test_the_package_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "deepinfer_neuron", "tiny", "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert "make" in result.stdout
