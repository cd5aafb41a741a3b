"""The Neuron SDK's programs, files and devices, each there, absent and broken."""

from __future__ import annotations

import json
import shutil

import pytest
from deepinfer_neuron.doctor.neuron import find_neuron
from deepinfer_neuron.settings import Settings

DEVICES = [{"neuron_device": device, "nc_count": 8, "logical_neuroncore_config": 2} for device in range(16)]
BANNER = "NeuronX Compiler version 2.27.5334.0+abc\n\nPython version 3.11.7"


@pytest.fixture
def root(tmp_path):
    """An empty file system."""
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program, the only ones on the search path, that prints its argument and a text, and exits with 0."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def make(name: str, text: str, argument: str) -> None:
        path = programs / name
        path.write_text(f"#!/bin/sh\n[ \"$1\" = {argument} ] && /bin/cat <<'END'\n{text}\nEND\n")
        path.chmod(0o755)

    return make


def findings(root, asked=None, variables=()):
    return {found.name: found for found in find_neuron(root, asked or Settings(), dict(variables))}


def test_a_machine_without_any_lacks_it_all_and_is_told_what_to_install(root, program):
    found = findings(root)
    assert found.pop("NEURON_*").found == "none is set"
    assert {one.status for one in found.values()} == {"missing"}
    assert all(one.next_step.startswith("for devices: ") and not one.needed for one in found.values())


def test_a_machine_with_everything(root, program, standin):
    program("neuronx-cc", BANNER, "--version")
    program("neuron-ls", json.dumps(DEVICES), "--json-output")
    library = root / "opt/aws/neuron/lib/libnrt.so.1"
    library.parent.mkdir(parents=True)
    shutil.copy(standin.path, library)
    for path, text in {
        "sys/module/neuron/version": "2.31.1\n",
        **{f"dev/neuron{device}": "" for device in range(16)},
        "dev/neurons": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    found = findings(root, variables={"NEURON_RT_NUM_CORES": "4"})
    assert {one.status for one in found.values()} == {"ok"}
    assert found["neuronx-cc --version"].found.startswith("2.27.5334.0+abc, ")
    assert found["libnrt"].found == str(library)
    assert found["driver"].found == "2.31.1"
    assert found["devices"].found == "16: neuron0 to neuron15"
    assert found["cores and LNC"].found == "128 physical cores on 16 devices, LNC 2"
    assert found["NEURON_*"].found == "NEURON_RT_NUM_CORES=4"


@pytest.mark.parametrize(
    ("name", "argument", "row"),
    [("neuronx-cc", "--version", "neuronx-cc --version"), ("neuron-ls", "--json-output", "cores and LNC")],
)
@pytest.mark.parametrize("text", ["install me from another place", '{"a": [1]}', "[1]", ""])
def test_a_program_that_says_something_else_has_failed(root, program, name, argument, row, text):
    program(name, text, argument)
    found = findings(root)[row]
    assert found.status == "failed"
    assert name in found.found
    assert text[:10] in found.found
    assert found.next_step


def test_the_settings_say_where_compiler_and_library_are(root, program, standin, tmp_path):
    program("compiler", BANNER, "--version")
    found = findings(root, Settings(compiler=tmp_path / "bin" / "compiler", neuron_library=standin.path))
    assert found["neuronx-cc --version"].found == f"2.27.5334.0+abc, {tmp_path / 'bin' / 'compiler'}"
    assert (found["libnrt"].status, found["libnrt"].found) == ("ok", str(standin.path))


def test_a_library_that_cannot_be_loaded_has_failed(root, program, tmp_path):
    (tmp_path / "libnrt.so.1").write_text("no library")
    found = findings(root, Settings(neuron_library=tmp_path / "libnrt.so.1"))["libnrt"]
    assert found.status == "failed"
    assert "cannot be loaded" in found.found


def test_a_program_that_cannot_be_run_has_failed(root, program, tmp_path):
    program("neuron-ls", "", "--json-output")
    (tmp_path / "bin" / "neuron-ls").write_text("#!/absent/interpreter\n")
    assert findings(root)["cores and LNC"].status == "failed"


def test_a_device_that_may_not_be_opened_is_named(root, program, monkeypatch):
    (root / "dev").mkdir()
    for device in range(2):
        (root / f"dev/neuron{device}").touch()
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "neuron1")
    found = findings(root)["devices"]
    assert (found.status, found.found) == ("failed", "neuron1 cannot be opened")
