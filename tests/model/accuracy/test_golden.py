import dataclasses
import shutil

import pytest
import torch
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.model.accuracy import tensor_file
from deepinfer_neuron.model.accuracy.golden import load_golden, mode_name
from deepinfer_neuron.model.accuracy.tensor_file import read_tensors, write_tensors
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.reference.model import ReferenceModel


def test_golden_values_are_greedy_and_reproducible(golden_file, checkpoint):
    _, golden = golden_file
    config = checkpoint.config
    prompt = golden.prompts["twenty"]
    assert golden.mode == "bf16_kvq_actq"
    assert (prompt.length, len(prompt.tokens)) == (20, 23)
    assert prompt.logits.shape == (4, config.vocab_size)
    assert prompt.hidden.shape == (4, config.num_hidden_layers, config.hc_mult, config.hidden_size)
    assert prompt.hidden.dtype == torch.bfloat16
    assert prompt.tokens[20:] == prompt.logits[:3].argmax(-1).tolist()
    model = ReferenceModel(checkpoint)
    assert torch.equal(model.prefill(prompt.tokens[:20]).logits[0], prompt.logits[0])
    assert torch.equal(model.decode(prompt.tokens[20]).logits[0], prompt.logits[1])


def test_noise_and_margins(golden_file):
    _, golden = golden_file
    for prompt in golden.prompts.values():
        assert prompt.noise.argmax == 1
        assert 0 <= prompt.noise.rel < 0.2
        best = prompt.logits.sort(descending=True).values
        assert prompt.margins == (best[:, 0] - best[:, 1]).tolist()


def test_what_is_written_is_read_back(golden_file, checkpoint):
    path, golden = golden_file
    loaded = load_golden(path, checkpoint)
    assert loaded.summary() == golden.summary()
    for name, prompt in golden.prompts.items():
        assert torch.equal(loaded.prompts[name].logits, prompt.logits)
        assert torch.equal(loaded.prompts[name].hidden, prompt.hidden)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_another_checkpoint_is_refused(golden_file, nano_a, tmp_path):
    path, _ = golden_file
    other = shutil.copytree(nano_a, tmp_path / "other")
    weights = other / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(ArtifactError, match=r"another checkpoint.*golden .* again"):
        load_golden(path, open_checkpoint(other))


def test_files_of_another_kind_or_damaged_are_refused(golden_file, nano_a, tmp_path):
    path, _ = golden_file
    with pytest.raises(ArtifactError, match="of kind None"):
        load_golden(nano_a / "outputs.safetensors")
    with pytest.raises(ArtifactError, match="does not exist"):
        load_golden(tmp_path / "absent.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="not a whole safetensors file"):
        load_golden(cut)
    tensors, metadata = read_tensors(path)
    del tensors["one/logits"]
    write_tensors(cut, tensors, metadata)
    with pytest.raises(ArtifactError, match="one/logits"):
        load_golden(cut)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    def full_disk(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    path = tmp_path / "values.safetensors"
    write_tensors(path, {"x": torch.zeros(2)}, {})
    monkeypatch.setattr(tensor_file, "save_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_tensors(path, {"x": torch.ones(2)}, {})
    assert torch.equal(read_tensors(path)[0]["x"], torch.zeros(2))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_mode_names():
    assert mode_name(Numerics()) == "bf16_kvq_actq"
    assert mode_name(Numerics(torch.float32, kv_quant=False, act_quant=False)) == "fp32"
    assert mode_name(Numerics(fp8_max=224.0)) == "bf16_kvq_actq_fp8max224"
    assert mode_name(dataclasses.replace(Numerics(), kv_quant=False)) == "bf16_actq"
