import shutil

import pytest
from deepinfer_neuron.model.accuracy.prompts import PROMPT_LENGTHS, PROMPT_TEXTS, built_in_prompts
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.checkpoint.tokenizer import load_tokenizer, real_tokenizer_file


def lengths(prompts):
    return {name: len(ids) for name, ids in prompts.items()}


def test_text_prompts_have_their_length_with_a_small_vocabulary(checkpoint):
    prompts = built_in_prompts(checkpoint)
    assert lengths(prompts) == PROMPT_LENGTHS == {"p11": 11, "p172": 172, "p715": 715}


@pytest.mark.parametrize("name", PROMPT_LENGTHS)
def test_the_texts_are_long_enough_for_the_real_tokenizer(name):
    tokenizer = load_tokenizer(real_tokenizer_file())
    assert len(tokenizer.encode(PROMPT_TEXTS[name], add_special_tokens=False).ids) >= PROMPT_LENGTHS[name]


def test_without_a_tokenizer_ids_are_seeded_and_never_an_image(nano_a, tmp_path):
    directory = shutil.copytree(nano_a, tmp_path / "no_text", ignore=shutil.ignore_patterns("tokenizer.json"))
    checkpoint = open_checkpoint(directory)
    prompts = built_in_prompts(checkpoint)
    assert lengths(prompts) == PROMPT_LENGTHS
    assert prompts == built_in_prompts(checkpoint)
    used = {token for ids in prompts.values() for token in ids}
    assert used <= set(range(checkpoint.config.vocab_size)) - {checkpoint.config.image_token_id}
    assert len(used) > 300
