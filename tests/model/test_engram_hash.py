"""Engram hashing against an independent implementation's row ids and worked numbers of the released model."""

import json
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError
from deepinfer_neuron.model.checkpoint.sizes import config_json
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.engram_hash import (
    DEAD,
    EngramTables,
    build_engram_tables,
    draw_multipliers,
    hash_sequence,
    hash_window,
    load_engram_tables,
)
from safetensors.torch import load_file, save_file

VECTORS = Path(__file__).parents[1] / "vectors"


def tables_of(directory: str) -> EngramTables:
    path = VECTORS / directory
    return load_engram_tables(path / "engram_tables.safetensors", ModelConfig.from_directory(path))


def released_tables() -> EngramTables:
    """The released hash over tokens that already are compressed ids."""
    raw = config_json("tiny")
    changed = {
        "vocab_size": 99092,
        "engram_layer_ids": [1, 14],
        "engram_vocab_size": 16000000,
        "engram_num_embeddings": [384006168, 384016682],
    }
    config = ModelConfig.from_dict(raw | {"text_config": raw["text_config"] | changed})
    return build_engram_tables(config, torch.arange(99092))


@pytest.mark.parametrize("directory", ["nano_a", "nano_b"])
def test_row_ids_of_every_prompt(directory):
    tables = tables_of(directory)
    outputs = load_file(str(VECTORS / directory / "outputs.safetensors"))
    prompts = json.loads((VECTORS / directory / "inputs.json").read_text())["prompts"]
    for name, prompt in prompts.items():
        assert torch.equal(hash_sequence(tables, torch.tensor(prompt["ids"][0])), outputs[f"common/{name}/engram_rows"])


@pytest.mark.parametrize("directory", ["nano_a", "nano_b"])
def test_built_tables_equal_the_stored_ones(directory):
    stored = tables_of(directory)
    built = build_engram_tables(ModelConfig.from_directory(VECTORS / directory), stored.token_map)
    for name in ("primes", "offsets", "multipliers"):
        assert torch.equal(getattr(built, name), getattr(stored, name))
    assert built.pad == stored.pad == 1


def test_worked_numbers_of_the_released_model():
    tables = released_tables()
    assert tables.primes[0, :3].tolist() == [16000057, 16000079, 16000081]
    assert tables.primes[1, 0] == 16000477
    rows = hash_sequence(tables, torch.tensor([5, 77, 1234, 99091]))
    assert rows.shape == (4, 2, 24)
    assert rows[3, 0, [0, 8, 16, 23]].tolist() == [7841506, 130980189, 257543072, 373203253]
    assert (rows - tables.offsets)[0, 0, [0, 8, 16]].tolist() == [5412672, 15493752, 350501]


def test_frozen_multipliers_are_those_numpy_draws():
    assert tuple(map(tuple, released_tables().multipliers.tolist())) == (
        draw_multipliers(99092, 1, 4),
        draw_multipliers(99092, 14, 4),
    )
    assert draw_multipliers(99092, 4, 4) == (82260218638837, 5037792023067, 73653454411355, 18954862957863)


def test_a_window_hashes_as_its_place_in_the_sequence():
    tables = tables_of("nano_a")
    tokens = torch.randint(0, 512, (40,), generator=torch.Generator().manual_seed(0))
    padded = torch.cat((torch.full((3,), DEAD), tokens))
    windows = torch.stack([padded[position : position + 4] for position in range(40)])
    assert torch.equal(hash_window(tables, windows), hash_sequence(tables, tokens))
    assert torch.equal(hash_window(tables, windows.to(torch.int32)), hash_sequence(tables, tokens))


def test_no_ngram_reaches_across_a_dead_position():
    tables = tables_of("nano_a")
    across = torch.tensor([[7, DEAD, 9, 10], [300, DEAD, 9, 10], [DEAD, DEAD, 9, 10]])
    rows = hash_window(tables, across)
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    assert not torch.equal(rows[0], hash_window(tables, torch.tensor([7, 8, 9, 10])))


def test_row_ids_stay_inside_their_column():
    tables = tables_of("nano_b")
    rows = hash_sequence(tables, torch.arange(528)) - tables.offsets
    assert (rows >= 0).all()
    assert (rows < tables.primes).all()


def test_saved_tables_load_again(tmp_path):
    tables = tables_of("nano_a")
    tables.save(tmp_path / "tables.safetensors")
    loaded = load_engram_tables(tmp_path / "tables.safetensors", ModelConfig.from_directory(VECTORS / "nano_a"))
    assert loaded.pad == tables.pad
    assert torch.equal(loaded.multipliers, tables.multipliers)


def test_tables_that_contradict_the_config_are_refused(tmp_path):
    config = ModelConfig.from_directory(VECTORS / "nano_a")
    with pytest.raises(CheckpointError, match=r"token_map \[100\] is not \[vocab\].*100 compressed ids"):
        build_engram_tables(config, torch.arange(100))
    with pytest.raises(CheckpointError, match="engram_pad_token_id 2 is beyond the 2 tokens"):
        build_engram_tables(config, torch.arange(2))
    stored = load_file(str(VECTORS / "nano_a" / "engram_tables.safetensors"))
    path = tmp_path / "tables.safetensors"
    save_file(stored | {"primes": stored["primes"] + 1}, str(path))
    with pytest.raises(CheckpointError, match="primes sum to"):
        load_engram_tables(path, config)
    save_file({"primes": stored["primes"]}, str(path))
    with pytest.raises(CheckpointError, match="does not hold token_map"):
        load_engram_tables(path, config)
    path.write_bytes(b"not safetensors")
    with pytest.raises(CheckpointError, match="does not hold token_map"):
        load_engram_tables(path, config)
