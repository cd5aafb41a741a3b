"""A step whose programs are stored is neither lowered nor compiled again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.programs import region_lowering, sources
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.errors import ArtifactError, CompileError
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import SlotSpec
from deepinfer_neuron.runtime.store import default
from deepinfer_neuron.runtime.store.default import default_store
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.settings import Settings


class Step(torch.nn.Module):
    """Two stages, of which the first updates a cache."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0, keepdim=True))
        (y,) = stage_boundary("first", x + self.total)
        return torch.tanh(y) * self.factor


def refuse(*_: object) -> None:
    raise AssertionError("made although it is stored")


@pytest.fixture
def stored(store: ArtifactStore) -> ArtifactStore:
    runner = compile_decode(Step(), [2], mode="regions", store=store)
    assert [report.stored for report in runner.reports] == [0]
    return store


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


def test_a_stored_step_is_not_made_again(stored: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 4)
    expected = compile_decode(Step(), [2], mode="regions")(x=x)
    monkeypatch.setattr(region_lowering, "lower_graph", refuse)
    monkeypatch.setattr(HostTarget, "compile", refuse)
    runner = compile_decode(Step(), [2], mode="regions", store=stored, assert_hit=True)
    assert [(report.programs, report.stored) for report in runner.reports] == [(2, 2)]
    assert torch.equal(runner(x=x), expected)


def test_regions_that_did_not_change_are_found(stored: ArtifactStore) -> None:
    runner = compile_decode(Step(factor=3.0), [2], mode="regions", store=stored)
    assert [(report.programs, report.stored) for report in runner.reports] == [(2, 1)]
    assert {manifest.metadata["description"] for manifest, _ in stored.entries("program")} == {"first", "end"}


def test_a_required_program_that_is_missing_is_explained(stored: ArtifactStore) -> None:
    with pytest.raises(ArtifactError, match=r"no stored program.*graph, line \d+: .*3\.0"):
        compile_decode(Step(factor=3.0), [2], mode="regions", store=stored, assert_hit=True)
    with pytest.raises(ArtifactError, match="there is no store"):
        compile_decode(Step(), [2], assert_hit=True)


def test_a_damaged_program_is_compiled_again(stored: ArtifactStore) -> None:
    x = torch.randn(2, 4)
    expected = compile_decode(Step(), [2], mode="regions")(x=x)
    for digest in stored.local.layout.digests():
        payload = stored.local.layout.entry(digest) / "program"
        payload.write_bytes(payload.read_bytes()[:-1])
    runner = compile_decode(Step(), [2], mode="regions", store=stored)
    assert [report.stored for report in runner.reports] == [0]
    assert torch.equal(runner(x=x), expected)


def test_a_refusal_of_the_compiler_is_remembered(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise CompileError("no registers left")

    monkeypatch.setattr(HostTarget, "compile", fail)
    with pytest.raises(CompileError, match=r"^no registers left\n  next: deepinfer-neuron bisect .*/failures/\w{64}$"):
        compile_decode(Step(), [2], store=store)
    monkeypatch.setattr(HostTarget, "compile", refuse)
    with pytest.raises(CompileError, match=r"no registers left\n.*tried again.*\n  next: deepinfer-neuron bisect"):
        compile_decode(Step(), [2], store=store)


def test_a_program_without_a_sure_key_is_compiled_and_not_stored(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(path: Path) -> None:
        raise ArtifactError(f"{path.name} changed")

    sources._own_sources.cache_clear()
    monkeypatch.setattr(sources, "_check_unchanged", changed)
    with caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        runner = compile_decode(Step(), [2], store=store)
    assert torch.equal(runner(x=torch.zeros(2, 4)), torch.zeros(2, 4))
    assert "the program of whole is not stored" in caplog.text
    assert store.entries() == []
    with pytest.raises(ArtifactError, match="changed"):
        compile_decode(Step(), [2], store=store, assert_hit=True)


def test_the_environment_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    monkeypatch.setattr(default, "settings", lambda: Settings(cache_directories=(far,)))
    compile_decode(Step(), [2])
    monkeypatch.setattr(default, "settings", lambda: Settings(cache_directories=(near, far)))
    assert [report.stored for report in compile_decode(Step(), [2]).reports] == [1]
    assert len(ArtifactStore(near).entries("program")) == 1
    monkeypatch.setattr(default, "settings", Settings)
    assert default_store() is None
