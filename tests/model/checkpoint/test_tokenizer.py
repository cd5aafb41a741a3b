"""The tokenizer's compressed vocabulary."""

from pathlib import Path

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError
from deepinfer_neuron.model.checkpoint.tokenizer import load_tokenizer, real_tokenizer_file, token_map
from safetensors.torch import load_file

VECTORS = Path(__file__).parents[2] / "vectors"


@pytest.mark.parametrize("directory", ["nano_a", "nano_b"])
def test_token_map_equals_the_one_stored_beside_it(directory):
    stored = load_file(str(VECTORS / directory / "engram_tables.safetensors"))["token_map"]
    assert torch.equal(token_map(VECTORS / directory / "tokenizer.json"), stored)


def test_the_real_vocabulary_compresses_to_the_released_size():
    mapped = token_map(real_tokenizer_file())
    assert mapped.shape == (129280,)
    assert mapped.unique().tolist() == list(range(99092))


def test_case_spacing_and_accents_fold_together_but_words_do_not():
    tokenizer = load_tokenizer(real_tokenizer_file())
    mapped = token_map(real_tokenizer_file())

    def compressed(text: str) -> int:
        (token,) = tokenizer.encode(text, add_special_tokens=False).ids
        return int(mapped[token])

    assert compressed("Hello") == compressed("hello") == compressed(" hello")
    assert compressed("hello") != compressed("world")
    assert compressed(" ") == compressed("\n")
    assert compressed(" ") != compressed("a")


def test_a_changed_map_does_not_reach_the_next_caller():
    token_map(VECTORS / "nano_a" / "tokenizer.json").zero_()
    assert token_map(VECTORS / "nano_a" / "tokenizer.json").max() == 321


def test_a_missing_or_damaged_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json does not exist"):
        token_map(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not a tokenizer file"):
        token_map(tmp_path / "tokenizer.json")
