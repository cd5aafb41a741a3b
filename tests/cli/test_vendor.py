"""``cache vendor`` as a person types it."""

import json

from deepinfer_neuron import settings
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.settings import Settings
from neffs import small_neff
from typer.testing import CliRunner
from vendor_caches import make_module

GOOD = {"model.neff": small_neff(), "model.done": b"", "model.hlo_module.pb": b"module"}


def run(*arguments: object):
    return CliRunner().invoke(main, ["cache", "vendor", *map(str, arguments)])


def test_compilations_are_listed_with_the_log_of_failures(tmp_path):
    make_module(tmp_path, GOOD, flags=["--target=trn2"])
    make_module(tmp_path, {"model.log": b"[ERROR] [NCC_EVRF029] sort\n"}, name="MODULE_77+617f6939", age_s=50)
    report = tmp_path / "report.json"
    result = run("ls", tmp_path, "--json", report)
    assert result.exit_code == 0, result.output
    assert f"{tmp_path}: 1 failed, 1 success" in result.output
    assert "MODULE_77+617f6939 failed:\n[ERROR] [NCC_EVRF029] sort" in result.output
    content = json.loads(report.read_text())
    assert content["states"] == {"success": 1, "failed": 1}
    assert [(module["module"], module["state"], module["flags"]) for module in content["modules"]] == [
        ("1494686516964995913", "success", ["--target=trn2"]),
        ("77", "failed", None),
    ]
    assert content["modules"][1]["age_s"] >= 50


def test_an_empty_cache_is_listed(tmp_path):
    result = run("ls", tmp_path)
    assert result.exit_code == 0, result.output
    assert "no compilations" in result.output


def test_programs_are_imported_once(tmp_path):
    make_module(tmp_path / "vendor", GOOD)
    make_module(tmp_path / "vendor", {"model.log": b"error"}, name="MODULE_77+617f6939")
    report = tmp_path / "report.json"
    arguments = ("import", tmp_path / "vendor", "--store", tmp_path / "store", "--json", report)
    for outcome in ("imported", "present"):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        content = json.loads(report.read_text())
        assert content["outcomes"] == {outcome: 1, "skipped": 1}
        assert len(content["modules"][0]["digest"]) == 64


def test_a_damaged_program_is_an_error_after_the_others(tmp_path):
    make_module(tmp_path / "vendor", GOOD | {"model.neff": small_neff()[:-9]}, name="MODULE_11+617f6939")
    make_module(tmp_path / "vendor", GOOD)
    result = run("import", tmp_path / "vendor", "--store", tmp_path / "store")
    assert result.exit_code == 1
    assert "1 imported, 1 refused" in result.output


def test_a_missing_directory_is_one_line(tmp_path):
    result = run("ls", tmp_path / "gone")
    assert result.exit_code == 1
    assert result.output.startswith(f"error: vendor cache {tmp_path / 'gone'}: no such directory")


def test_the_place_is_that_of_the_vendors_tools(tmp_path, monkeypatch):
    make_module(tmp_path / "cache", GOOD)
    for environment, expected in (
        (
            {"NEURON_COMPILE_CACHE_URL": "s3://bucket"},
            "error: vendor cache 's3://bucket': only directories can be read",
        ),
        ({"NEURON_CC_FLAGS": f"--cache_dir='{tmp_path / 'cache'}' -O1"}, f"{tmp_path / 'cache'}: 1 success"),
    ):
        asked = Settings.from_environment({"NEURON_COMPILE_CACHE_URL": "s3://bucket"} | environment)
        monkeypatch.setattr(settings, "settings", lambda asked=asked: asked)
        assert run("ls").output.startswith(expected)
