"""Value checks of a whole checkpoint."""

import pytest
import torch
from deepinfer_neuron.errors import CheckpointError
from deepinfer_neuron.model.checkpoint.check import check_checkpoint
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from safetensors.torch import load_file, save_file


def spoil(directory, name: str, value) -> None:
    """Set the first element of one tensor, given as a byte for fp8 formats."""
    for path in directory.glob("model-*.safetensors"):
        tensors = load_file(str(path))
        if name in tensors:
            tensor = tensors[name]
            flat = (tensor.view(torch.uint8) if isinstance(value, int) else tensor).flatten()
            flat[0] = value
            tensors[name] = flat.view(tensor.dtype).reshape(tensor.shape)
            save_file(tensors, str(path))


def test_the_summary_counts_every_byte(tmp_path):
    summary = check_checkpoint(make_checkpoint(tmp_path / "nano", "nano"))
    assert sum(entry.tensors for entry in summary.dtypes) == summary.tensors
    assert sum(entry.bytes for entry in summary.dtypes) == summary.bytes
    assert [entry.dtype for entry in summary.dtypes] == [
        "bfloat16",
        "float32",
        "float8_e4m3fn",
        "float8_e8m0fnu",
        "int8",
    ]


def test_impossible_values_are_named_together(tmp_path):
    directory = make_checkpoint(tmp_path / "nano", "nano")
    spoil(directory, "layers.0.attn.wq_a.weight", 0xFF)
    spoil(directory, "layers.0.attn.wq_a.scale", 0)
    spoil(directory, "layers.1.engram.embed.scale", 255)
    spoil(directory, "layers.2.attn.attn_sink", float("inf"))
    spoil(directory, "norm.weight", float("nan"))
    with pytest.raises(CheckpointError) as caught:
        check_checkpoint(directory)
    message = str(caught.value)
    for name in ("attn.wq_a.weight", "attn.wq_a.scale", "engram.embed.scale", "attn_sink", "norm.weight"):
        assert name in message
    assert "layers.0.attn.wq_a.scale: 1 of 8 values" in message
