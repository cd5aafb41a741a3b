"""Packages by their metadata, real and made up."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import deepinfer_neuron
import pytest
from deepinfer_neuron.doctor.packages import HOST_PACKAGES, NEURON_PACKAGES, Package, find_packages

ROOT = Path(deepinfer_neuron.__file__).parent


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes a distribution of a name and version with so many bytes of code, found before any other."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, version: str, code_bytes: int, source: str | None = None) -> None:
        module = tmp_path / name.replace("-", "_")
        module.mkdir()
        (module / "__init__.py").write_bytes(b"#" * code_bytes)
        metadata = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "#" * 30_000)
        (metadata / "RECORD").write_text(f"{module.name}/__init__.py,,\n{metadata.name}/METADATA,,\n")
        if source is not None:
            (metadata / "direct_url.json").write_text(source)

    return install


def finding(name):
    (found,) = [found for found in find_packages() if found.name == name]
    return found


def test_the_table_has_this_package_s_dependencies():
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [package.requirement for package in HOST_PACKAGES] == configured["dependencies"]
    assert all(package.end == "" for package in NEURON_PACKAGES)


def test_here_is_all_that_the_host_needs():
    needed = [found for found in find_packages() if found.needed]
    assert [found.name for found in needed] == [package.name for package in HOST_PACKAGES]
    assert {found.status for found in needed} == {"ok"}


@pytest.mark.parametrize("package", NEURON_PACKAGES, ids=lambda package: package.name)
def test_the_public_version_is_a_placeholder(installed, package):
    installed(package.name, NEURON_PACKAGES[package], 1_000_000)
    found = finding(package.name)
    assert found.status == "placeholder"
    assert found.found == f"{NEURON_PACKAGES[package]}, a placeholder from a public index"
    assert "pip uninstall" in found.next_step
    assert not found.needed


def test_so_is_one_of_another_version_without_code(installed):
    installed("nki", "7.1", 1000)
    assert finding("nki").status == "placeholder"


def test_a_package_with_code_is_none(installed):
    installed("nki", "7.1", 100_000)
    assert (finding("nki").status, finding("nki").found) == ("ok", "7.1")


def test_nor_is_one_that_is_linked_to_its_source(installed):
    installed("nki", "7.1", 0, source='{"url": "file:///source", "dir_info": {"editable": true}}')
    assert finding("nki").status == "ok"


@pytest.mark.parametrize(("version", "status"), [("2.26.6360.0+6f180f47", "wrong version"), ("2.27.5334.0", "ok")])
def test_the_compiler_has_to_be_of_the_release_whose_flags_are_pinned(installed, version, status):
    installed("neuronx-cc", version, 100_000)
    assert finding("neuronx-cc").status == status


def test_a_dependency_of_another_version_is_named_with_what_to_install(installed):
    installed("jaxlib", "0.11.1", 100_000)
    found = finding("jaxlib")
    assert (found.status, found.found, found.needed) == ("wrong version", "0.11.1", True)
    assert found.next_step == 'pip install "jaxlib>=0.10.2,<0.11"'


def test_what_is_not_installed_is_missing(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    assert {found.status for found in find_packages()} == {"missing"}


@pytest.mark.parametrize(
    ("version", "serves"),
    [("2.13.0+cpu", True), ("2.13", True), ("2.13.1rc1", True), ("2.14.0", False), ("2.9", False), ("unknown", False)],
)
def test_versions_are_compared_by_their_numbers(version, serves):
    assert Package("torch", "2.13", "2.14").serves(version) == serves
