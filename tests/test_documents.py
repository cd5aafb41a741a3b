"""What the documents name exists, and what exists is named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import deepinfer_neuron
import pytest
import typer
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.lowering.inexact import INEXACT
from deepinfer_neuron.passes.pipeline import PASSES

ROOT = Path(deepinfer_neuron.__file__).parent
DOCUMENTS = ("README.md", "COMPILE_NOTES.md", "CONTRIBUTING.md")
COMMAND = re.compile(r"(?:^|`)deepinfer-neuron ((?:[a-z]+ ?){1,2})", re.MULTILINE)
MAKE_TARGET = re.compile(r"(?:^|`)make ([a-z-]+)", re.MULTILINE)
MADE_BY_A_COMMAND = {
    *("programs/", ".venv", "demo/", "nano/golden.safetensors", "nano/regions.html", "again.safetensors"),
    *("bisect/result/", "repro.py"),
}


def read(name: str) -> str:
    return (ROOT / name).read_text()


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)


def spans(name: str) -> list[str]:
    """Inline code."""
    prose = re.sub(r"^```.*?^```$", "", read(name), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def commands() -> set[str]:
    root = typer.main.get_command(main)
    names = set()
    for name, command in root.commands.items():
        names |= {f"{name} {inner}" for inner in getattr(command, "commands", {})} or {name}
    return names


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    paths = [span for span in spans(document) if re.fullmatch(r"[\w.]+(/[\w.]*)+|[\w]+\.(py|md|toml)", span)]
    paths = [path for path in paths if path not in MADE_BY_A_COMMAND]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS[:2])
def test_every_command_exists(document: str) -> None:
    named = [words.split() for words in COMMAND.findall(read(document))]
    assert named
    for words in named:
        assert words[0] in commands() or " ".join(words) in commands(), f"deepinfer-neuron {' '.join(words)}"


def test_the_readme_names_every_command() -> None:
    text = read("README.md")
    assert [command for command in commands() if not re.search(rf"[ `]{command}\b", text)] == []


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    named = {target for document in DOCUMENTS for target in MAKE_TARGET.findall(read(document))}
    assert {"demo", "test"} <= named
    assert named <= targets


def test_variables_in_the_readme_are_those_that_are_read() -> None:
    variable = r"DEEPINFER_[A-Z0-9_]+"
    documented = set(re.findall(rf"^\| `({variable})`", read("README.md"), re.MULTILINE))
    assert documented == set(re.findall(variable, read("settings.py")))
    for document in DOCUMENTS:
        assert set(re.findall(variable, read(document))) <= documented


def test_every_pass_is_described_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \|", read("COMPILE_NOTES.md"), re.MULTILINE)
    assert rows == [(entry.name, "yes" if entry.required else "no") for entry in PASSES]


def test_every_inexact_operator_is_named() -> None:
    section = read("COMPILE_NOTES.md").partition("## Inexact operators")[2].partition("\n## ")[0]
    for overload in INEXACT:
        operator = overload._schema.name.partition("::")[2].strip("_").removeprefix("native_").removeprefix("linalg_")
        assert operator.replace("_", " ") in section.replace("_", " ").replace("-", " "), overload


@pytest.mark.parametrize("example", code_blocks("README.md", "python"))
def test_the_examples_run(example: str, nano_a: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nano").symlink_to(nano_a)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(example, "README.md", "exec"), names)
    if "y" in names:
        assert names["y"].tolist() == [[2.0] * 4] * 3


def test_the_package_list_is_complete() -> None:
    configured = tomllib.loads(read("pyproject.toml"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for path in ROOT.rglob("__init__.py")}
    folders = {folder for folder in folders if folder.parts[:1] not in {(".venv",), ("build",), ("tests",)}}
    assert set(configured) == {".".join(("deepinfer_neuron", *folder.parts)) for folder in folders}
    assert len(configured) == len(set(configured))
