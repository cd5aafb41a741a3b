"""Weight images: every type and shape comes back, in memory that a device can use, from a mapped file."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.memory import ALIGNMENT, is_shareable
from deepinfer_neuron.runtime.weight_image import map_image, write_image
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

DTYPES = [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64]


def random_tensor(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def write(path, tensors):
    with path.open("wb") as stream:
        write_image(stream.write, tensors)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3).map(tuple)),
        max_size=6,
    )
)
def test_every_tensor_comes_back_in_shareable_memory(tmp_path_factory, described):
    path = tmp_path_factory.mktemp("image") / "weights.safetensors"
    tensors = {name: random_tensor(*kind, seed) for seed, (name, kind) in enumerate(described.items())}
    write(path, tensors)
    mapped = map_image(path)
    assert mapped.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert mapped[name].dtype == tensor.dtype and torch.equal(mapped[name], tensor)
        assert is_shareable(mapped[name])


def test_an_image_is_a_safetensors_file(tmp_path):
    path = tmp_path / "weights.safetensors"
    tensors = {"odd": torch.arange(3, dtype=torch.uint8), "even": torch.arange(64.0)}
    write(path, tensors)
    loaded = load_file(path)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_large_tensors_are_mapped_and_not_copied(tmp_path):
    path = tmp_path / "weights.safetensors"
    write(path, {"a": torch.ones(3, dtype=torch.uint8), "b": torch.zeros(ALIGNMENT)})
    mapped = map_image(path)["b"]
    pages = [line.split() for line in open("/proc/self/maps").read().splitlines() if line.endswith(path.name)]  # noqa: PTH123, SIM115
    ranges = [tuple(int(end, 16) for end in line[0].split("-")) for line in pages]
    assert any(first <= mapped.data_ptr() < last for first, last in ranges)
    mapped.fill_(7)
    assert torch.equal(load_file(path)["b"], torch.zeros(ALIGNMENT))


def test_a_type_that_no_program_takes_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"'w' is torch.float8_e4m3fn.*carry it as uint8"):
        write(tmp_path / "weights.safetensors", {"w": torch.zeros(4).to(torch.float8_e4m3fn)})


@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{}", b"no tensors at all"], ids=["empty", "cut", "text"])
def test_a_damaged_image_is_named(tmp_path, content):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"weights.safetensors is no readable weight image"):
        map_image(path)
