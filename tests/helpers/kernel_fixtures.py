"""Fixtures for tests of device kernels: a registry of the test's own, and a stand-in for NKI."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deepinfer_neuron.compiler.lowering.device_kernels import registry
from deepinfer_neuron.compiler.programs import sources
from stand_in_kernels import MODULE, SOURCE

STANDIN = Path(__file__).parents[1] / "standins" / "nki_standin"
NAMES = {"nki", "nkilib", MODULE}


def forget_modules() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", [])


@pytest.fixture
def nki_standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NKI and its library as packages that can be imported."""
    forget_modules()
    monkeypatch.syspath_prepend(STANDIN)
    yield
    forget_modules()


@pytest.fixture
def write_source(nki_standin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the module that ``nki_rms_norm`` is in, as if it had been there before this process started."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str = SOURCE) -> Path:
        path = tmp_path / f"{MODULE}.py"
        path.write_text(text)
        os.utime(path, (1, 1))
        sources._file_digest.cache_clear()
        sources._imported.cache_clear()
        sys.modules.pop(MODULE, None)
        return path

    return write
