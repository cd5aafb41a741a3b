"""Python, settings, the store, and the program that is run."""

from __future__ import annotations

import sys

import pytest
from deepinfer_neuron.doctor import host
from deepinfer_neuron.doctor.host import find_host
from deepinfer_neuron.settings import Settings


@pytest.fixture(autouse=True)
def no_program(monkeypatch):
    """The small program is run once, in test_report.py."""
    monkeypatch.setattr(host, "_program_command", lambda: [sys.executable, "-c", ""])


def finding(name):
    (found,) = [found for found in find_host() if found.name == name]
    return found


def test_a_python_that_is_too_old_is_named(monkeypatch):
    assert (finding("Python").status, finding("Python").needed) == ("ok", True)
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert finding("Python").status == "wrong version"
    assert finding("Python").next_step == "install 3.11 or newer"


def test_a_variable_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.setattr(host, "settings", lambda: Settings.from_environment({"DEEPINFER_NEURON_DEVICE": "gpu"}))
    found = finding("settings")
    assert (found.status, found.needed) == ("failed", True)
    assert "DEEPINFER_NEURON_DEVICE='gpu'" in found.found


def test_the_store_and_the_space_it_has(monkeypatch, tmp_path):
    assert finding("store").status == "missing"
    monkeypatch.setattr(host, "settings", lambda: Settings(cache_directories=(tmp_path / "not" / "yet",)))
    found = finding("store")
    assert found.status == "ok"
    assert str(tmp_path / "not" / "yet") in found.found
    assert found.found.endswith("GiB free")


def test_a_store_that_cannot_be_a_directory_has_failed(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(host, "settings", lambda: Settings(cache_directories=(tmp_path / "file",)))
    found = finding("store")
    assert (found.status, found.needed) == ("failed", False)
    assert str(tmp_path / "file") in found.next_step


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libexample is of another version')", "libexample is of another version"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with -11"),
    ],
)
def test_a_program_that_fails_or_ends_its_process_fails_nothing_else(monkeypatch, code, said):
    monkeypatch.setattr(host, "_program_command", lambda: [sys.executable, "-c", code])
    found = finding("program on the host")
    assert (found.status, found.needed) == ("failed", True)
    assert said in found.found
    assert found.next_step.startswith("see it with")


def test_a_program_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(host, "_program_command", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(host, "_PROGRAM_S", 0.2)
    assert finding("program on the host").found == "still running after 0.2 s"
