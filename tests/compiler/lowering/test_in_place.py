"""A mutated root is updated in its own memory, and no step copies it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from deepinfer_neuron.errors import DeviceError
from deepinfer_neuron.runtime.devices.pjrt import aligned_empty
from host_programs import Host, aligned, trace

ROWS, WIDTH = 512, 64
DTYPES = (torch.int16, torch.float32)

Step = Callable[..., tuple[torch.Tensor, ...]]


def put(root: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.index_put(root, [rows], values)


def store_once(root: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (put(root, rows, values),)


def store_and_read(root: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    updated = put(root, rows, values)
    return updated, updated[rows + 1]


def store_read_store(root: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The second layer's rows depend on what the first one read."""
    updated = put(root, rows, values)
    read = updated[rows - 1] + updated[rows]
    updated = put(updated, rows + 100, read * 2)
    return put(updated, rows + 200, updated[rows + 100]), read


def copy_along_rows(root: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.ops.aten.index_copy(root, 0, rows, values),)


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def make_root(dtype: torch.dtype) -> torch.Tensor:
    return aligned_empty((ROWS, WIDTH), dtype).copy_(torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) % 97)


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("step", [store_once, store_and_read, store_read_store, copy_along_rows])
def test_roots_are_updated_in_place(host: Host, step: Step, dtype: torch.dtype, numerics: str) -> None:
    root, rows = make_root(dtype), torch.tensor([3, 9, 40])
    values = torch.arange(3 * WIDTH).reshape(3, WIDTH).to(dtype)
    executable = host.load(trace(step, root, rows, values), numerics, {0: 0})
    expected = root.clone()
    buffer = host.device.buffer(root, donatable=True)
    small = [aligned(rows), aligned(values)]
    for _ in range(3):
        outputs = executable.execute([buffer, *map(host.device.buffer, small)])
        expected, *rest = step(expected, rows, values)
        for output, result in zip(outputs[1:], rest, strict=True):
            assert torch.equal(host.device.to_torch(output), result)
        buffer = outputs[0]
        buffer.block_until_ready()
        assert buffer.unsafe_buffer_pointer() == root.data_ptr()
        assert torch.equal(root, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("step", [store_once, store_and_read, store_read_store, copy_along_rows])
def test_no_instruction_copies_a_root(host: Host, step: Step, dtype: torch.dtype) -> None:
    arguments = make_root(dtype), torch.tensor([3, 9, 40]), torch.zeros(3, WIDTH, dtype=dtype)
    program = host.load(trace(step, *arguments), "fast", {0: 0}).optimized_hlo()
    assert f"[{ROWS},{WIDTH}]" in program
    assert not re.findall(rf"\[{ROWS},{WIDTH}\]\S* copy\(", program)


def test_a_consumed_buffer_is_named(host: Host) -> None:
    root, rows, values = make_root(torch.float32), torch.tensor([1]), torch.zeros(1, WIDTH)
    executable = host.load(trace(store_once, root, rows, values), "fast", {0: 0})
    arguments = [host.device.buffer(root, donatable=True), *map(host.device.buffer, (aligned(rows), aligned(values)))]
    executable.execute(arguments)
    with pytest.raises(DeviceError, match=r"buffers \[0\] were consumed"):
        executable.execute(arguments)
