"""The stand-in for libnrt notices calls that break the rules of the headers."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p

import pytest
import torch
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice

INVALID, INVALID_HANDLE, CLOSED = 2, 3, 14


@pytest.fixture
def library(device: NrtDevice) -> ctypes.CDLL:
    """The functions of an open runtime."""
    return device.runtime._library


def tensor(library: ctypes.CDLL, core: int = 0, size: int = 48) -> c_void_p:
    handle = c_void_p()
    assert library.nrt_tensor_allocate(0, core, size, b"one", byref(handle)) == 0
    return handle


def tensor_set(library: ctypes.CDLL, **tensors: c_void_p) -> c_void_p:
    handle = c_void_p()
    assert library.nrt_allocate_tensor_set(byref(handle)) == 0
    for name, one in tensors.items():
        assert library.nrt_add_tensor_to_tensor_set(handle, name.encode(), one) == 0
    return handle


def test_a_freed_handle(library, standin):
    handle = tensor(library)
    copy = c_void_p(handle.value)
    library.nrt_tensor_free(byref(handle))
    assert library.nrt_tensor_write(copy, bytes(4), 0, 4) == INVALID_HANDLE
    library.nrt_tensor_free(byref(copy))
    assert standin.notes() == [
        "nrt_tensor_write: a freed tensor where a tensor is needed",
        "nrt_tensor_free: a freed tensor where a tensor is needed",
    ]


def test_a_handle_of_another_kind_or_of_nobody(library, standin):
    one, group = tensor(library), tensor_set(library)
    assert library.nrt_unload(one) == INVALID_HANDLE
    assert library.nrt_add_tensor_to_tensor_set(group, b"x", group) == INVALID_HANDLE
    assert library.nrt_tensor_write(c_void_p(64), bytes(4), 0, 4) == INVALID_HANDLE
    assert standin.notes() == [
        "nrt_unload: a tensor where a model is needed",
        "nrt_add_tensor_to_tensor_set: a tensor set where a tensor is needed",
        "nrt_tensor_write: a handle of nobody where a tensor is needed",
    ]
    library.nrt_tensor_free(byref(one))
    library.nrt_destroy_tensor_set(byref(group))


def test_bytes_outside_of_a_tensor(library, standin):
    one = tensor(library, size=8)
    assert library.nrt_tensor_write(one, bytes(8), 4, 8) == INVALID
    assert standin.notes() == ["nrt_tensor_write: 8 bytes from 4 of 8 in 'one'"]
    library.nrt_tensor_free(byref(one))


def test_a_tensor_that_does_not_outlive_its_set(library, standin):
    one = tensor(library)
    group = tensor_set(library, x=one)
    library.nrt_tensor_free(byref(one))
    assert standin.notes() == ["nrt_tensor_free: 'one' is still in 1 sets and slices"]
    library.nrt_destroy_tensor_set(byref(group))


def test_what_is_left_when_the_runtime_closes(library, standin):
    tensor(library)
    library.nrt_close()
    assert standin.notes() == ["nrt_close: a tensor 'one' is left"]
    handle = c_void_p()
    assert library.nrt_tensor_allocate(0, 0, 8, b"late", byref(handle)) == CLOSED
    assert standin.notes() == ["nrt_tensor_allocate after nrt_close"]
    assert library.nrt_init(1, b"", b"") == 0


@pytest.mark.parametrize(
    ("core", "size", "name", "note"),
    [
        (0, 48, "input9", "input0 is missing"),
        (0, 40, "input0", "input0 has another size"),
        (1, 48, "input0", "input0 is on another core"),
    ],
)
def test_a_tensor_that_does_not_fit_the_program(library, device, artifact, standin, core, size, name, note):
    executable = device.load(artifact)
    good = [tensor(library) for _ in range(3)]
    wrong = tensor(library, core, size)
    inputs = tensor_set(library, input1=good[0], **{name: wrong})
    outputs = tensor_set(library, output0=good[1], output1=good[2])
    assert library.nrt_execute(executable._model.handle, inputs, outputs) == INVALID
    assert standin.notes() == [f"nrt_execute: {note}"]
    for handle in (inputs, outputs):
        library.nrt_destroy_tensor_set(byref(handle))
    for handle in (*good, wrong):
        library.nrt_tensor_free(byref(handle))


def test_memory_is_not_zero_before_it_is_written(library, device):
    one = tensor(library, size=16)
    content = torch.empty(16, dtype=torch.uint8)
    assert library.nrt_tensor_read(one, content.data_ptr(), 0, 16) == 0
    assert (content == 0xA5).all()
    library.nrt_tensor_free(byref(one))
