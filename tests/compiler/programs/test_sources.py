from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy
import pytest
import torch
from deepinfer_neuron.compiler.programs import sources
from deepinfer_neuron.compiler.programs.sources import function_sources, module_sources
from deepinfer_neuron.errors import ArtifactError

FILES = {
    "__init__": "",
    "kernels": "import math\nimport numpy\nfrom . import helpers\ndef kernel(x):\n    return helpers.twice(x)\n",
    "helpers": "from .numbers.two import TWO\ndef twice(x):\n    return x * TWO\n",
    "numbers/__init__": "",
    "numbers/two": "TWO = 2\n",
    "unrelated": "",
}


def write_package(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (0, 0))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Imports ``kernels`` of a package made of FILES, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "made_package"]:
            del sys.modules[name]
        sources._file_digest.cache_clear()
        sources._imported.cache_clear()
        importlib.invalidate_caches()

    def load(**changes: str) -> ModuleType:
        forget()
        write_package(tmp_path / "made_package", FILES | changes)
        importlib.import_module("made_package.unrelated")
        return importlib.import_module("made_package.kernels")

    yield load
    forget()


def test_imports_are_followed_and_libraries_count_by_version(load: Callable[..., ModuleType]) -> None:
    found = function_sources(load().kernel)
    names = "made_package", "made_package.kernels", "made_package.helpers", "made_package.numbers.two"
    assert set(found) == {*names, "numpy"}
    assert found["numpy"] == f"version {numpy.__version__}"


@pytest.mark.parametrize("name", ["kernels", "helpers", "numbers/two"])
def test_a_change_of_what_is_imported_counts(load: Callable[..., ModuleType], name: str) -> None:
    before = function_sources(load().kernel)
    assert function_sources(load(**{name: FILES[name] + "# changed\n"}).kernel) != before


def test_a_change_of_something_else_does_not_count(load: Callable[..., ModuleType]) -> None:
    before = function_sources(load().kernel)
    assert function_sources(load(unrelated="# changed\n").kernel) == before


def test_a_source_that_changed_after_the_process_started_is_refused(
    load: Callable[..., ModuleType], tmp_path: Path
) -> None:
    module = load()
    future = sources._STARTED + 10
    os.utime(tmp_path / "made_package" / "helpers.py", (future, future))
    with pytest.raises(ArtifactError, match="changed after this process started"):
        module_sources(module)


def test_functions_that_no_source_determines_are_refused(load: Callable[..., ModuleType]) -> None:
    kernel = load().kernel

    def closure(x: int) -> int:
        return kernel(x)

    made: dict[str, Callable[[int], int]] = {}
    exec("def typed_in(x): return x", {"__name__": "nowhere"}, made)
    for function in closure, partial(kernel), made["typed_in"]:
        with pytest.raises(ArtifactError, match="source"):
            function_sources(function)


def test_pytorch_counts_by_its_version() -> None:
    assert function_sources(torch._decomp.decompositions.sigmoid_backward) == {}
