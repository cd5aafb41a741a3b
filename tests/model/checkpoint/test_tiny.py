"""Made-up checkpoints: repeatable, whole or absent, and with well-behaved values."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError
from deepinfer_neuron.model.checkpoint import tiny
from deepinfer_neuron.model.checkpoint.check import check_checkpoint
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.checkpoint.recipe import random_tensor
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint


def digests(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def nano(tmp_path_factory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("made") / "nano", "nano", seed=7)


def test_equal_seeds_give_equal_bytes_and_other_seeds_do_not(nano, tmp_path):
    assert digests(make_checkpoint(tmp_path / "again", "nano", seed=7)) == digests(nano)
    other = digests(make_checkpoint(tmp_path / "other", "nano", seed=8))
    differing = {name for name, digest in other.items() if digest != digests(nano)[name]}
    assert differing == {"config.json", *(name for name in other if name.startswith("model-"))}


def test_a_nano_checkpoint_is_small_sharded_and_opens(nano):
    assert sum(path.stat().st_size for path in nano.iterdir()) < 10e6
    summary = check_checkpoint(nano)
    assert len(summary.shards) == 3
    assert summary.tensors == 870
    with open_checkpoint(nano) as checkpoint:
        tables = checkpoint.engram_tables()
        assert tables.pad != checkpoint.config.engram_pad_token_id


def test_every_kind_of_layer_is_there(nano):
    config = open_checkpoint(nano).config
    layers = range(config.num_hidden_layers)
    kinds = {
        (
            config.compress_ratios[layer],
            layer in config.kv_source_layer_ids,
            layer in config.index_source_layer_ids,
            layer in config.engram_layer_ids,
        )
        for layer in layers
    }
    plain, reuse, reindex = (0, False, False), (1, False, False), (1, False, True)
    sources = [(2, True, True), (1, True, True)]
    assert {kind[:3] for kind in kinds} >= {plain, reuse, (2, False, False), reindex, *sources}
    assert (0, False, False, True) in kinds
    assert (2, True, True, True) in kinds


def test_linears_have_the_size_of_their_fan_in(nano):
    with open_checkpoint(nano) as checkpoint:
        for prefix in (
            "layers.0.attn.wq_a",
            "layers.2.ffn.experts.3.w1",
            "layers.2.attn.indexer.wk",
            "mtp.0.main_proj",
        ):
            weight = checkpoint.decoded(prefix, torch.float32)
            assert 0.5 < weight.std() * weight.shape[1] ** 0.5 < 2, prefix


def test_nothing_is_left_neutral(nano):
    with open_checkpoint(nano) as checkpoint:
        for name in checkpoint.names:
            values = checkpoint.tensor(name)
            values = values.view(torch.uint8) if values.dtype == torch.float8_e8m0fnu else values
            assert values.numel() == 1 or values.float().std() > 0 or name.endswith(".scale"), name
        assert checkpoint.tensor("layers.0.ffn.experts.0.w1.weight").unique().numel() == 256


def test_a_tensor_depends_on_its_name_and_seed_alone(nano):
    with open_checkpoint(nano) as checkpoint:
        specs = {name: stored.spec for name, stored in checkpoint.tensors.items()}
        for name in ("head.weight", "layers.4.engram.embed.scale", "layers.3.ffn.experts.2.w3.weight"):
            made = random_tensor(name, specs, seed=7)
            assert torch.equal(made.view(torch.uint8), checkpoint.tensor(name).view(torch.uint8))


def test_a_checkpoint_is_replaced_only_on_request(nano, tmp_path):
    target = make_checkpoint(tmp_path / "nano", "nano", seed=1)
    before = digests(target)
    with pytest.raises(CheckpointError, match="--overwrite"):
        make_checkpoint(target, "nano", seed=2)
    assert digests(target) == before
    make_checkpoint(target, "nano", seed=7, overwrite=True)
    assert digests(target) == digests(nano)
    assert [path.name for path in tmp_path.iterdir()] == ["nano"]


@pytest.mark.parametrize("content", [None, "{}", "[]", "nonsense"])
def test_files_of_others_are_never_replaced(tmp_path, content):
    (tmp_path / "notes.txt").write_text("mine")
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match="did not write"):
        make_checkpoint(tmp_path, "nano", overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(CheckpointError, match="is a file"):
        make_checkpoint(tmp_path / "notes.txt", "nano", overwrite=True)


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    make_checkpoint(tmp_path / "empty", "nano")
    assert json.loads((tmp_path / "empty" / "config.json").read_text())["made_by"]["seed"] == 0


def test_a_failure_leaves_nothing_behind_and_what_was_there_untouched(nano, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tiny, "random_tensor", fail)
    with pytest.raises(KeyboardInterrupt):
        make_checkpoint(tmp_path / "nano", "nano")
    assert list(tmp_path.iterdir()) == []
    before = digests(nano)
    with pytest.raises(KeyboardInterrupt):
        make_checkpoint(nano, "nano", overwrite=True)
    assert digests(nano) == before
    assert list(nano.parent.iterdir()) == [nano]


def test_progress_ends_at_the_total(tmp_path):
    calls = []
    make_checkpoint(tmp_path / "nano", "nano", on_bytes=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1]


def test_an_unknown_size_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="'huge'; expected one of tiny, nano"):
        make_checkpoint(tmp_path / "x", "huge")


@pytest.mark.slow
def test_the_tiny_checkpoint_carries_the_real_tokenizer(tmp_path):
    summary = check_checkpoint(make_checkpoint(tmp_path / "tiny"))
    assert summary.engram_rows == 206584
    assert len(summary.shards) == 4
    with open_checkpoint(tmp_path / "tiny") as checkpoint:
        assert checkpoint.engram_tables().token_map.shape == (129280,)
