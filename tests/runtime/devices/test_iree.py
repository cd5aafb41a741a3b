"""The IREE device: shared memory, updates in place, ownership and refusals."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading

import pytest
import torch
from deepinfer_neuron.errors import DeviceError
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.devices.choice import device_for
from deepinfer_neuron.runtime.devices.iree import IreeDevice, iree_device
from deepinfer_neuron.runtime.devices.pjrt import host_device
from deepinfer_neuron.runtime.memory import aligned_empty
from host_programs import aligned
from iree_programs import compile_function


@pytest.fixture(scope="module")
def device() -> IreeDevice:
    return iree_device()


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return compile_function(lambda x, y: x + y, torch.zeros(40), torch.zeros(40))


@pytest.fixture(scope="module")
def storing() -> Artifact:
    """Stores two rows into a cache of bfloat16 and sums the rows that it held before."""

    def store(cache: torch.Tensor, rows: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return cache[index].float().sum(), cache.index_put((index,), rows)

    cache, rows = torch.zeros(8, 4).bfloat16(), torch.ones(2, 4).bfloat16()
    return compile_function(store, cache, rows, torch.tensor([5, 2]), aliases={1: 0})


def test_buffers_share_memory_with_torch(device: IreeDevice, artifact: Artifact) -> None:
    x, y = aligned(torch.ones(40)), aligned(torch.ones(40))
    buffers = [device.buffer(x), device.buffer(y)]
    executable = device.load(artifact)
    assert executable.artifact is artifact
    (before,) = executable.execute(buffers)
    assert bool((device.to_torch(before) == 2).all())
    x.fill_(5)
    (after,) = executable.execute(buffers)
    assert bool((device.to_torch(after) == 6).all())
    assert bool((device.to_torch(before) == 2).all())
    assert device.to_torch(buffers[0]).data_ptr() == x.data_ptr()


def test_results_feed_the_next_program(device: IreeDevice, artifact: Artifact) -> None:
    executable = device.load(artifact)
    value = device.buffer(aligned(torch.ones(40)))
    for _ in range(3):
        (value,) = executable.execute([value, value])
    assert bool((device.to_torch(value) == 8).all())


def test_an_aliased_input_is_updated_in_the_tensors_own_memory(device: IreeDevice, storing: Artifact) -> None:
    cache, index = aligned(torch.arange(32.0).view(8, 4).bfloat16()), aligned(torch.tensor([5, 2]))
    expected, place = cache.clone(), cache.data_ptr()
    executable, buffer = device.load(storing), device.buffer(cache, donatable=True)
    for step in range(3):
        rows = aligned(torch.full((2, 4), 100.0 + step).bfloat16())
        before = float(expected[index].float().sum())
        total, buffer = executable.execute([buffer, device.buffer(rows), device.buffer(index)])
        expected[index] = rows
        assert device.to_torch(total).item() == before
        assert torch.equal(cache, expected)
        assert device.to_torch(buffer).data_ptr() == cache.data_ptr() == place


def test_an_input_that_may_not_be_updated_is_refused(device: IreeDevice, storing: Artifact) -> None:
    cache, rows = aligned(torch.zeros(8, 4).bfloat16()), aligned(torch.ones(2, 4).bfloat16())
    buffers = [device.buffer(one) for one in (cache, rows, aligned(torch.tensor([5, 2])))]
    with pytest.raises(DeviceError, match="donatable"):
        device.load(storing).execute(buffers)
    assert not cache.any()


@pytest.mark.parametrize(
    "tensor",
    [aligned_empty((17,), torch.float32)[1:], aligned_empty((4, 4), torch.float32).t()[:, 1:]],
    ids=["unaligned", "strided"],
)
def test_memory_that_would_be_copied_is_refused(device: IreeDevice, tensor: torch.Tensor) -> None:
    with pytest.raises(DeviceError, match="contiguous, on the CPU and aligned"):
        device.buffer(tensor)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([torch.ones(40)], "expected 2 arguments but passed 1"),
        ([torch.ones(41)] * 2, "input0"),
        ([torch.ones(40, dtype=torch.int32)] * 2, "element type mismatch"),
    ],
)
def test_wrong_buffers_are_refused(
    device: IreeDevice, artifact: Artifact, tensors: list[torch.Tensor], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        device.load(artifact).execute([device.buffer(aligned(one)) for one in tensors])


def test_another_thread_is_refused(device: IreeDevice, artifact: Artifact) -> None:
    executable = device.load(artifact)
    errors: list[DeviceError] = []

    def call() -> None:
        try:
            executable.execute([])
        except DeviceError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "belongs to the thread" in str(errors[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "host"}, "compiled for 'host'"),
        ({"fingerprint": "iree-base-compiler 3.13.0; cpu 0"}, "compile it again here"),
        ({"payload": b"garbage"}, "payload is damaged"),
        ({"payload": b""}, "payload is damaged"),
    ],
)
def test_foreign_and_damaged_programs_are_refused(
    device: IreeDevice, artifact: Artifact, change: dict[str, object], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        device.load(dataclasses.replace(artifact, **change))


def test_each_target_has_its_device(device: IreeDevice) -> None:
    assert device_for("iree") is device
    assert device_for("host") is host_device()


def test_results_may_outlive_everything_else(artifact: Artifact, tmp_path) -> None:
    """A process that ends while it holds buffers ends in peace, and loads no compiler."""
    (tmp_path / "program").write_bytes(artifact.payload)
    code = (
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from deepinfer_neuron.runtime.artifacts import Artifact, TensorType\n"
        "from deepinfer_neuron.runtime.devices.iree import iree_device, machine_fingerprint\n"
        "from deepinfer_neuron.runtime.memory import aligned_empty\n"
        "kind = TensorType(torch.float32, (40,))\n"
        "payload = Path('program').read_bytes()\n"
        "artifact = Artifact('iree', payload, (kind, kind), (kind,), {}, False, machine_fingerprint())\n"
        "ones = aligned_empty((40,), torch.float32).fill_(1)\n"
        "buffer = iree_device().buffer(ones)\n"
        "kept = sys.kept = iree_device().load(artifact).execute([buffer, buffer])\n"
        "print(iree_device().to_torch(kept[0]).sum().item())\n"
        "found = [name for name in sys.modules if name.startswith(('torch._dynamo', 'iree.compiler'))]\n"
        "assert not found, found\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("80.0\n", "")


def test_without_the_runtime_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['iree'] = None\n"
        "from deepinfer_neuron.errors import ConfigError\n"
        "from deepinfer_neuron.runtime.devices.choice import device_for\n"
        "try: device_for('iree')\n"
        "except ConfigError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'deepinfer-neuron[iree]'" in result.stdout
