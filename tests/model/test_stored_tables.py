"""Engram constants are derived once and then read."""

from __future__ import annotations

import shutil
from dataclasses import fields

import pytest
import torch
from deepinfer_neuron.model.checkpoint.loader import ENGRAM_TABLES_FILE, Checkpoint, open_checkpoint
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from deepinfer_neuron.model.stored_tables import ENGRAM_TABLES, stored_engram_tables
from deepinfer_neuron.runtime.store.store import ArtifactStore


@pytest.fixture(scope="module")
def tables_checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables") / "nano"
    make_checkpoint(directory, "nano")
    return directory


def test_tables_beside_the_weights_are_read_and_not_stored(tables_checkpoint, tmp_path):
    store = ArtifactStore(tmp_path / "store")
    with open_checkpoint(tables_checkpoint) as checkpoint:
        assert (checkpoint.directory / ENGRAM_TABLES_FILE).exists()
        stored_engram_tables(checkpoint, store)
    assert store.entries() == []


def test_derived_tables_come_back_equal_and_are_derived_once(tables_checkpoint, tmp_path, monkeypatch):
    directory = tmp_path / "derived"
    shutil.copytree(tables_checkpoint, directory)
    (directory / ENGRAM_TABLES_FILE).rename(tmp_path / ENGRAM_TABLES_FILE)
    (directory / "tokenizer.json").write_text("{}")
    derived = []

    def derive(checkpoint):
        from deepinfer_neuron.model.engram_hash import load_engram_tables

        derived.append(checkpoint)
        return load_engram_tables(tmp_path / ENGRAM_TABLES_FILE, checkpoint.config)

    monkeypatch.setattr(Checkpoint, "engram_tables", derive)
    store = ArtifactStore(tmp_path / "store")
    with open_checkpoint(directory) as checkpoint:
        first, second = (stored_engram_tables(checkpoint, store) for _ in range(2))
        (directory / "tokenizer.json").write_text("{} ")
        stored_engram_tables(checkpoint, store)
    assert len(derived) == len(store.entries(ENGRAM_TABLES)) == 2
    for field in fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
