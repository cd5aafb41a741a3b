"""Second starts are timed in fresh processes, and a start that compiles or answers otherwise is no result."""

from __future__ import annotations

import json

import pytest
from deepinfer_neuron.benchmarks import loading
from deepinfer_neuron.cli.app import main
from typer.testing import CliRunner


def start(token: int = 5, compiler_imported: bool = False, load_s: float = 0.2) -> dict[str, object]:
    report = {"plan_s": 0.01, "programs_s": 0.1, "weights_s": 0.05, "bind_s": 0.02}
    sizes = {"programs": 1, "program_bytes": 1000, "weight_bytes": 2000}
    return {
        "import_s": 2.0,
        "load_s": load_s,
        "first_step_s": 0.05,
        "token": token,
        "report": report | sizes,
        "compiler_imported": compiler_imported,
    }


def test_the_speedup_is_from_after_the_imports_to_the_first_token():
    cost = loading._cost(10, (1, 2), [start(load_s=0.1), start(load_s=0.2), start(load_s=0.9)], cold_s=50.0)
    assert cost.load_s == 0.2
    assert cost.speedup == pytest.approx(200)


def test_a_start_that_imported_the_compiler_is_no_result():
    with pytest.raises(AssertionError, match="imported the compiler"):
        loading._cost(10, (1,), [start(), start(compiler_imported=True)], None)


@pytest.mark.slow
def test_the_command_times_a_cold_and_a_second_start(nano_a, tmp_path):
    out = tmp_path / "start.json"
    arguments = ["bench", "start", "--dir", str(nano_a), "--batch-sizes", "2", "--mode", "regions", "--rounds", "1"]
    result = CliRunner().invoke(main, [*arguments, "--json", str(out)])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(out.read_text())["start"]
    assert row["programs"] > 1 and row["weight_bytes"] > 1e6
    assert 0 < row["load_s"] + row["first_step_s"] < row["cold_s"]
