"""``doctor`` as a person types it."""

from __future__ import annotations

import json

from deepinfer_neuron.cli.app import main
from deepinfer_neuron.doctor import report
from deepinfer_neuron.doctor.finding import Finding
from deepinfer_neuron.doctor.report import DoctorReport
from deepinfer_neuron.settings import Settings
from typer.testing import CliRunner

LACKING = DoctorReport(
    [Finding("torch", "missing", "", "install it", needed=True), Finding("neuronx-cc", "placeholder", "1.0.post1")]
)


def test_this_machine_can_serve_as_a_host(tmp_path):
    out = tmp_path / "doctor.json"
    result = CliRunner().invoke(main, ["doctor", "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("everything the host needs is there")
    written = json.loads(out.read_text())
    assert written["host_works"] is True
    assert {tuple(sorted(found)) for found in written["findings"]} == {
        ("found", "name", "needed", "next_step", "status")
    }
    names = [found["name"] for found in written["findings"]]
    assert len(set(names)) == len(names)
    assert {"torch", "jaxlib", "neuronx-cc", "libnrt", "devices", "store", "program on the host"} <= set(names)


def test_a_host_that_lacks_something_exits_with_1_and_reports_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "run_doctor", lambda: LACKING)
    out = tmp_path / "doctor.json"
    result = CliRunner().invoke(main, ["doctor", "--json", str(out)])
    assert result.exit_code == 1
    assert result.output.startswith("the host lacks something it needs")
    assert json.loads(out.read_text())["host_works"] is False


def test_only_what_the_host_needs_decides():
    assert not LACKING.host_works
    assert DoctorReport(LACKING.findings[1:]).host_works


def test_an_environment_that_cannot_be_used_hides_nothing_else(monkeypatch):
    asked = []
    monkeypatch.setattr(report, "settings", lambda: Settings.from_environment({"DEEPINFER_NEURON_DEVICE": "gpu"}))
    monkeypatch.setattr(report, "find_host", list)
    monkeypatch.setattr(report, "find_neuron", lambda root, settings, variables: asked.append(settings) or [])
    assert report.run_doctor().findings
    assert asked == [Settings()]
