"""The host device: shared memory, ownership and refusals."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading

import pytest
import torch
from deepinfer_neuron.errors import DeviceError
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.memory import ALIGNMENT, aligned_empty
from host_programs import Host, aligned, trace


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


@pytest.fixture(scope="module")
def artifact(host: Host) -> Artifact:
    return host.target.compile(host.lower(trace(lambda x, y: x + y, torch.zeros(40), torch.zeros(40))))


def unaligned(*shape: int) -> torch.Tensor:
    return aligned_empty((torch.Size(shape).numel() + 1,), torch.float32)[1:].view(shape)


def test_buffers_share_memory_with_torch(host: Host, artifact: Artifact) -> None:
    x, y = aligned(torch.ones(40)), aligned(torch.ones(40))
    buffers = [host.device.buffer(x), host.device.buffer(y)]
    assert [one.unsafe_buffer_pointer() for one in buffers] == [x.data_ptr(), y.data_ptr()]
    executable = host.device.load(artifact)
    assert executable.artifact is artifact
    (before,) = executable.execute(buffers)
    assert bool((host.device.to_torch(before) == 2).all())
    x.fill_(5)
    (after,) = executable.execute(buffers)
    assert bool((host.device.to_torch(after) == 6).all())
    assert bool((host.device.to_torch(before) == 2).all())


def test_results_are_not_copied_to_torch(host: Host, artifact: Artifact) -> None:
    (result,) = host.device.load(artifact).execute([host.device.buffer(aligned(torch.ones(40)))] * 2)
    assert host.device.to_torch(result).data_ptr() == result.unsafe_buffer_pointer()


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.int64, torch.float64])
def test_aligned_empty(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = aligned_empty(shape, dtype)
    assert (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
    assert tensor.data_ptr() % ALIGNMENT == 0 or not tensor.numel()
    assert tensor.is_contiguous()


@pytest.mark.parametrize(
    "tensor", [unaligned(4, 4), aligned_empty((4, 4), torch.float32).t()[:, 1:]], ids=["unaligned", "strided"]
)
def test_memory_that_would_be_copied_is_refused(host: Host, tensor: torch.Tensor) -> None:
    with pytest.raises(DeviceError, match="contiguous, on the CPU and aligned"):
        host.device.buffer(tensor)


def test_a_wrong_number_of_buffers_is_refused(host: Host, artifact: Artifact) -> None:
    with pytest.raises(DeviceError, match="takes 2 buffers, got 1"):
        host.device.load(artifact).execute([host.device.buffer(aligned(torch.ones(40)))])


def test_a_buffer_of_another_shape_is_refused(host: Host, artifact: Artifact) -> None:
    wrong = host.device.buffer(aligned(torch.ones(41)))
    with pytest.raises(DeviceError):
        host.device.load(artifact).execute([wrong, wrong])


def test_another_thread_is_refused(host: Host, artifact: Artifact) -> None:
    executable = host.device.load(artifact)
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
        ({"target": "trn2"}, "compiled for 'trn2'"),
        ({"fingerprint": "jaxlib 0.0.1"}, "compile it again here"),
        ({"payload": b"garbage"}, "payload is damaged"),
    ],
)
def test_foreign_and_damaged_programs_are_refused(
    host: Host, artifact: Artifact, change: dict[str, object], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        host.device.load(dataclasses.replace(artifact, **change))


def test_loading_programs_needs_no_compiler() -> None:
    code = (
        "import sys, deepinfer_neuron.runtime.devices.pjrt as pjrt; pjrt.PjrtDevice();"
        "found = [name for name in sys.modules if name.startswith(('torch._dynamo', 'jax.', 'torch._inductor'))];"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
