"""A second start from a full store: same bits, no compiler; and what happens when the store has lost something."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.engine.loading import LoadedDecode, load_decode
from deepinfer_neuron.errors import InputError, StoreMissError
from deepinfer_neuron.model.checkpoint.headers import INDEX_FILE
from deepinfer_neuron.runtime import loader
from deepinfer_neuron.runtime.loader import PLAN, WEIGHTS
from deepinfer_neuron.runtime.store.programs import PROGRAM
from deepinfer_neuron.runtime.store.store import ArtifactStore
from safetensors.torch import load_file, save_file

OPTIONS = {"batch_sizes": (2,), "max_context": 64, "mode": "regions"}
STRICT = OPTIONS | {"on_miss": "error"}
TOKENS = [[3, 5], [7, 11], [13, 2]]


def decode(loaded: LoadedDecode) -> torch.Tensor:
    """Logits of three steps of two requests, from empty caches."""
    requests = [loaded.open(), loaded.open()]
    logits = [loaded.step(requests, tokens).clone() for tokens in TOKENS]
    for request in requests:
        loaded.close(request)
    return torch.stack(logits)


@pytest.fixture(scope="module")
def full(small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor]:
    """A store that one start has filled, and what that start computed."""
    root = tmp_path_factory.mktemp("full") / "store"
    loaded = load_decode(small, root, **OPTIONS)
    assert loaded.compiled
    return root, decode(loaded)


@pytest.fixture
def store(full: tuple[Path, torch.Tensor], tmp_path: Path) -> ArtifactStore:
    """A copy of the full store, elsewhere."""
    shutil.copytree(full[0], tmp_path / "moved")
    return ArtifactStore(tmp_path / "moved")


def entries_of(store: ArtifactStore, kind: str) -> list[Path]:
    return [store.local.layout.entry(manifest.digest) for manifest, _ in store.entries(kind)]


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_second_start_computes_the_same_bits_and_compiles_nothing(full, store, small):
    loaded = load_decode(small, store, **STRICT)
    assert not loaded.compiled
    assert torch.equal(decode(loaded), full[1])
    assert loaded.report.programs == len(entries_of(store, PROGRAM))
    assert min(loaded.report.program_bytes, loaded.report.weight_bytes) > 0


def test_a_fresh_process_imports_neither_compiler_nor_a_pass_nor_the_model(full, small):
    code = f"""
import json, sys
from deepinfer_neuron import load_decode
loaded = load_decode({str(small)!r}, {str(full[0])!r}, **{STRICT!r})
loaded.step([loaded.open()], [3])
print(json.dumps(sorted(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(result.stdout)
    absent = ("deepinfer_neuron.compiler", "deepinfer_neuron.model.decode", "torch._dynamo")
    assert not [name for name in modules if name.startswith(absent)]
    passes = {name.rpartition(".")[2] for name in modules if name.startswith("deepinfer_neuron.passes.")}
    assert passes == {"weight_layout", "target_facts"}
    assert "deepinfer_neuron.runtime.loader" in modules


def test_a_batch_above_the_maximum_is_refused_without_a_model(store, small):
    loaded = load_decode(small, store, **STRICT)
    requests = [loaded.open() for _ in range(2)]
    inputs = loaded.table.step_inputs(requests, [1, 2])
    with pytest.raises(InputError, match="no eager model"):
        loaded.runner(**{name: torch.cat((value, value)) for name, value in inputs.items()})


@pytest.mark.parametrize("kind", [PLAN, PROGRAM])
def test_a_damaged_entry_is_put_aside_and_made_again(full, store, small, kind, caplog):
    victim = entries_of(store, kind)[0]
    flip_a_bit(victim / ("plan.json" if kind == PLAN else PROGRAM))
    with caplog.at_level(logging.WARNING):
        loaded = load_decode(small, store, **OPTIONS)
    assert len([record for record in caplog.records if "is damaged" in record.message]) == 1
    assert loaded.compiled and torch.equal(decode(loaded), full[1])
    assert not load_decode(small, store, **STRICT).compiled


@pytest.mark.parametrize("kind", [PLAN, PROGRAM])
def test_by_policy_a_damaged_entry_is_an_error_instead(store, small, kind):
    victim = entries_of(store, kind)[0]
    flip_a_bit(victim / ("plan.json" if kind == PLAN else PROGRAM))
    with pytest.raises(StoreMissError, match=r"compile again|no stored plan"):
        load_decode(small, store, **STRICT)


def test_damaged_weights_are_made_again_from_the_checkpoint(full, store, small, caplog):
    flip_a_bit(entries_of(store, WEIGHTS)[0] / "weights-0.safetensors")
    loaded = load_decode(small, store, **STRICT)
    assert len([record for record in caplog.records if "is damaged" in record.message]) == 1
    assert torch.equal(decode(loaded), full[1])


def test_other_weights_are_not_taken_for_these(full, store, small, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(small, other)
    index = json.loads((other / INDEX_FILE).read_text())
    shard = other / index["weight_map"]["norm.weight"]
    tensors = load_file(shard)
    tensors["norm.weight"] = tensors["norm.weight"] * 2
    save_file(tensors, shard, {"format": "pt"})
    assert not torch.equal(decode(load_decode(other, store, **STRICT)), full[1])
    assert len(entries_of(store, WEIGHTS)) == 2
    assert torch.equal(decode(load_decode(small, store, **STRICT)), full[1])


def test_another_source_explains_the_miss(store, small, monkeypatch):
    monkeypatch.setattr(loader, "plan_sources", lambda target: {"compiler.capture": "changed"})
    with pytest.raises(StoreMissError, match=r"sources, compiler\.capture: nothing there, \"changed\" here"):
        load_decode(small, store, **STRICT)


def test_a_store_that_cannot_be_written_serves_all_the_same(full, store, small, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    for path in entries_of(store, WEIGHTS):
        shutil.rmtree(path)
    monkeypatch.setattr("deepinfer_neuron.runtime.store.directory.new_stage", refuse)
    assert torch.equal(decode(load_decode(small, store, **STRICT)), full[1])
