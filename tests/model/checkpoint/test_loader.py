"""Opening checkpoints: good ones load lazily, bad ones are refused with every offending name."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError, ConfigError
from deepinfer_neuron.model.checkpoint.headers import INDEX_FILE, SINGLE_FILE
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from safetensors.torch import load_file, save_file

NANO = Path(__file__).parents[2] / "vectors" / "nano_a"


@pytest.fixture
def checkpoint_directory(tmp_path):
    for name in ("config.json", "engram_tables.safetensors", INDEX_FILE, SINGLE_FILE):
        shutil.copyfile(NANO / name, tmp_path / name)
    return tmp_path


def rewrite(directory: Path, change, shards: int = 1, keep_index: bool = False) -> None:
    """Apply ``change`` to the dict of tensors and write it back as ``shards`` files with an index that fits."""
    tensors = load_file(str(directory / SINGLE_FILE))
    change(tensors)
    (directory / SINGLE_FILE).unlink()
    names = sorted(tensors)
    weight_map = {}
    for shard in range(shards):
        file = SINGLE_FILE if shards == 1 else f"model-{shard}.safetensors"
        part = names[shard::shards]
        save_file({name: tensors[name] for name in part}, str(directory / file))
        weight_map |= dict.fromkeys(part, file)
    if not keep_index:
        write_index(directory, weight_map)


def write_index(directory: Path, weight_map) -> None:
    (directory / INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def read_index(directory: Path) -> dict[str, str]:
    return json.loads((directory / INDEX_FILE).read_text())["weight_map"]


def refusal(directory: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(directory)
    return str(caught.value)


@pytest.mark.parametrize("directory", ["nano_a", "nano_b"])
def test_every_tensor_of_an_independent_checkpoint_is_expected_and_loads(directory):
    path = NANO.parent / directory
    with open_checkpoint(path) as checkpoint:
        stored = load_file(str(path / SINGLE_FILE))
        assert set(checkpoint.names) == set(stored)
        for name, tensor in stored.items():
            loaded = checkpoint.tensor(name)
            assert loaded.dtype == tensor.dtype
            assert torch.equal(loaded.view(torch.uint8), tensor.view(torch.uint8))


def test_tensors_are_views_of_one_mapping():
    with open_checkpoint(NANO) as checkpoint:
        assert checkpoint.tensor("embed.weight").data_ptr() == checkpoint.tensor("embed.weight").data_ptr()


def test_decoded_applies_the_scales_of_each_format():
    with open_checkpoint(NANO) as checkpoint:
        fp8 = checkpoint.tensor("layers.0.attn.wq_b.weight").float()
        scale = checkpoint.tensor("layers.0.attn.wq_b.scale").float()
        decoded = checkpoint.decoded("layers.0.attn.wq_b", torch.float32)
        assert torch.equal(decoded, fp8 * scale.repeat_interleave(32, 0).repeat_interleave(32, 1))

        rows = checkpoint.tensor("layers.1.engram.embed.weight").float()
        row_scale = checkpoint.tensor("layers.1.engram.embed.scale").float()
        assert torch.equal(checkpoint.decoded("layers.1.engram.embed", torch.float32), rows * row_scale)

        assert checkpoint.decoded("layers.0.ffn.experts.0.w2", torch.bfloat16).shape == (128, 32)
        head = checkpoint.decoded("head", torch.float32)
        assert torch.equal(head, checkpoint.tensor("head.weight").float())


def test_an_unknown_name_is_refused():
    with (
        open_checkpoint(NANO) as checkpoint,
        pytest.raises(CheckpointError, match="layers\\.99\\.attn is not a tensor"),
    ):
        checkpoint.tensor("layers.99.attn")


def test_several_shards_and_a_single_file_without_index_load(checkpoint_directory):
    (checkpoint_directory / INDEX_FILE).unlink()
    assert len(open_checkpoint(checkpoint_directory).names) == 870
    rewrite(checkpoint_directory, lambda tensors: None, shards=3)
    with open_checkpoint(checkpoint_directory) as checkpoint:
        assert len({stored.file for stored in checkpoint.tensors.values()}) == 3
        assert checkpoint.tensor("norm.weight").shape == (128,)


def test_older_spellings_load_under_their_canonical_names(checkpoint_directory):
    def respell(tensors):
        for name in list(tensors):
            old = "model." + name.replace("attn.", "self_attn.", 1).replace("ffn.", "mlp.", 1)
            old = re.sub(r"gate\.bias$", "gate.e_score_correction_bias", old)
            old = re.sub(r"\.scale$", ".weight_scale_inv", old)
            tensors[old] = tensors.pop(name)

    expected = open_checkpoint(NANO)
    rewrite(checkpoint_directory, respell)
    checkpoint = open_checkpoint(checkpoint_directory)
    assert checkpoint.names == expected.names
    for name in ("layers.2.attn.indexer.wq_b.scale", "layers.3.ffn.gate.bias", "mtp.0.ffn.experts.1.w1.weight"):
        assert torch.equal(checkpoint.tensor(name).view(torch.uint8), expected.tensor(name).view(torch.uint8))


def test_tied_copies_and_vision_tensors_are_skipped(checkpoint_directory):
    def add(tensors):
        for name in ("vision.patch_embed.weight", "aligner.w1.weight", "image_start", "mtp.1.embed.weight"):
            tensors[name] = torch.zeros(3)

    rewrite(checkpoint_directory, add)
    assert len(open_checkpoint(checkpoint_directory).names) == 870


def test_all_faults_of_the_tensors_come_in_one_error(checkpoint_directory):
    def spoil(tensors):
        del tensors["norm.weight"]
        tensors["layers.0.attn.wq_c.weight"] = torch.zeros(2)
        tensors["layers.0.attn_norm.weight"] = torch.zeros(64, dtype=torch.bfloat16)
        tensors["layers.1.attn.attn_sink"] = tensors["layers.1.attn.attn_sink"].bfloat16()

    rewrite(checkpoint_directory, spoil)
    message = refusal(checkpoint_directory)
    assert "norm.weight: missing" in message
    assert "layers.0.attn.wq_c.weight: unexpected" in message
    assert "layers.0.attn_norm.weight: stored as bfloat16 [64], expected bfloat16 [128]" in message
    assert "layers.1.attn.attn_sink: stored as bfloat16 [4], expected float32 [4]" in message
    assert "tiny make" in message


def test_a_long_list_of_faults_is_capped(checkpoint_directory):
    rewrite(checkpoint_directory, lambda tensors: [tensors.pop(name) for name in sorted(tensors)[:50]])
    message = refusal(checkpoint_directory)
    assert message.count(": missing") == 20
    assert "and 30 more" in message


def test_two_spellings_of_one_tensor_are_refused(checkpoint_directory):
    rewrite(checkpoint_directory, lambda tensors: tensors.update({"model.norm.weight": tensors["norm.weight"].clone()}))
    assert "norm.weight: stored twice" in refusal(checkpoint_directory)


def test_a_truncated_shard_names_the_tensors_beyond_its_end(checkpoint_directory):
    path = checkpoint_directory / SINGLE_FILE
    path.write_bytes(path.read_bytes()[:-1])
    message = refusal(checkpoint_directory)
    assert len(re.findall(r"^  \S+: truncated: ends at byte \d+", message, re.MULTILINE)) == 1


@pytest.mark.parametrize("kept", [0, 5, 100])
def test_a_shard_cut_inside_its_header_is_named(checkpoint_directory, kept):
    path = checkpoint_directory / SINGLE_FILE
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{SINGLE_FILE}: truncated: {kept} bytes do not hold its header" in refusal(checkpoint_directory)


def test_trailing_bytes_are_refused(checkpoint_directory):
    with (checkpoint_directory / SINGLE_FILE).open("ab") as file:
        file.write(b"xyz")
    assert f"{SINGLE_FILE}: 3 bytes follow the last tensor" in refusal(checkpoint_directory)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b'"BF16"', b'"BF61"', "unknown dtype BF61"),
        (b'"dtype"', b'"dtipe"', "damaged header"),
        (b"{", b"[", "damaged header"),
        (b'"shape":[512,128]', b'"shape":[512,129]', "but its shape needs"),
    ],
)
def test_a_damaged_header_is_refused(checkpoint_directory, old, new, complaint):
    path = checkpoint_directory / SINGLE_FILE
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    assert complaint in refusal(checkpoint_directory)


def test_overlapping_byte_ranges_are_refused(checkpoint_directory):
    path = checkpoint_directory / SINGLE_FILE
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    twins = [name for name in header if name in ("layers.0.hc_attn_fn", "layers.0.hc_ffn_fn")]
    header[twins[1]]["data_offsets"] = header[twins[0]]["data_offsets"]
    encoded = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + content[8 + length :])
    assert re.search(r"layers\.0\.hc_\w+_fn: begins at byte \d+ of model\.safetensors", refusal(checkpoint_directory))


def test_an_index_that_disagrees_with_its_shards_is_refused(checkpoint_directory):
    rewrite(checkpoint_directory, lambda tensors: None, shards=2)
    index = read_index(checkpoint_directory)
    moved, unlisted = "embed.weight", "norm.weight"
    index[moved] = "model-1.safetensors" if index[moved] == "model-0.safetensors" else "model-0.safetensors"
    del index[unlisted]
    index["layers.0.attn.imaginary"] = "model-0.safetensors"
    write_index(checkpoint_directory, index)
    message = refusal(checkpoint_directory)
    assert re.search(rf"{moved}: model-\d\.safetensors holds it, but the index places it in model-\d", message)
    assert re.search(rf"{unlisted}: model-\d\.safetensors holds it, but the index places it in no shard", message)
    assert "layers.0.attn.imaginary: missing: the index places it in model-0.safetensors" in message


def test_a_missing_shard_is_named(checkpoint_directory):
    rewrite(checkpoint_directory, lambda tensors: None, shards=2)
    (checkpoint_directory / "model-1.safetensors").unlink()
    assert "model-1.safetensors: the index names this shard, but the file is not there" in refusal(checkpoint_directory)


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../x"}}']
)
def test_a_useless_index_is_named(checkpoint_directory, content):
    (checkpoint_directory / INDEX_FILE).write_text(content)
    assert INDEX_FILE in refusal(checkpoint_directory)


def test_a_directory_without_weights_or_config_is_refused(checkpoint_directory):
    (checkpoint_directory / INDEX_FILE).unlink()
    (checkpoint_directory / SINGLE_FILE).unlink()
    assert "neither model.safetensors.index.json nor model.safetensors is there" in refusal(checkpoint_directory)
    (checkpoint_directory / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json does not exist"):
        open_checkpoint(checkpoint_directory)
