"""A Neuron core through the stand-in for libnrt: memory, programs and refusals."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from deepinfer_neuron.errors import DeviceError
from deepinfer_neuron.runtime.artifacts import TensorType
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice
from deepinfer_neuron.runtime.devices.nrt.status import STATUSES, Status
from nrt_standin import standin_neff

Filled = Callable[..., torch.Tensor]
NOTHING = {"tensors": 0, "sets": 0, "models": 0}


def status(name: str) -> Status:
    return next(one for one in STATUSES if one.name == name)


def error_elsewhere(function: Callable[[], Any]) -> Exception:
    """What a call raises in another thread."""
    errors: list[Exception] = []

    def call() -> None:
        try:
            function()
        except DeviceError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return errors[0]


def test_a_program_updates_the_cache_on_the_device(device: NrtDevice, artifact, filled: Filled):
    executable = device.load(artifact)
    assert executable.artifact is artifact
    source = filled(2)
    cache, step = device.buffer(source, donatable=True), device.buffer(filled(3))
    for round_number in (1, 2, 3):
        product, updated = executable.execute([cache, step])
        assert updated is cache
        assert torch.equal(device.to_torch(product), filled((2 + 3 * (round_number - 1)) * 3))
        assert torch.equal(device.to_torch(cache), filled(2 + 3 * round_number))
    assert torch.equal(source, filled(2))
    device.fetch(cache)
    assert torch.equal(source, filled(11))


def test_sets_are_prepared_once_for_the_same_buffers(device: NrtDevice, artifact, filled: Filled, standin):
    executable = device.load(artifact)
    cache, step, other = (device.buffer(filled(value)) for value in (1, 2, 3))
    results = executable.execute([cache, step])
    assert standin.alive() == {"tensors": 4, "sets": 2, "models": 1}
    assert executable.execute([cache, step]) is results
    assert executable.execute([cache, other])[0] is not results[0]
    del results
    gc.collect()
    assert standin.alive() == {"tensors": 4, "sets": 2, "models": 1}
    place = executable.at_place()
    place.execute([cache, step])
    assert standin.alive() == {"tensors": 5, "sets": 4, "models": 1}


def test_everything_is_freed_with_its_owner_in_the_right_order(device: NrtDevice, artifact, filled: Filled, standin):
    executable = device.load(artifact)
    buffers = [device.buffer(filled(1)), device.buffer(filled(2))]
    executable.execute(buffers)
    del buffers
    gc.collect()
    assert standin.alive()["tensors"] == 3
    del executable
    gc.collect()
    assert standin.alive() == NOTHING
    assert standin.notes() == []


def test_rows_are_slices_of_one_allocation(device: NrtDevice, filled: Filled, artifact, standin):
    root = device.buffer(torch.arange(32.0).view(8, 4))
    part = device.rows(root, 2, 3)
    assert part.kind == TensorType(torch.float32, (3, 4))
    assert torch.equal(device.to_torch(part), torch.arange(8.0, 20).view(3, 4))
    device.load(artifact).execute([part, device.buffer(filled(100))])
    expected = torch.arange(32.0).view(8, 4)
    expected[2:5] += 100
    assert torch.equal(device.to_torch(root), expected)
    del root
    gc.collect()
    assert torch.equal(device.to_torch(part), expected[2:5])


def test_rows_outside_are_refused_by_the_runtime(device: NrtDevice, filled: Filled, standin):
    with pytest.raises(DeviceError, match=r"rows 2 to 4 of float32\[3, 4\].*NRT_INVALID \(2\)"):
        device.rows(device.buffer(filled(0)), 2, 2)
    assert standin.notes() == ["nrt_tensor_allocate_slice: 32 bytes from 32 of 48"]


def test_a_buffer_follows_its_tensor_when_asked_to(device: NrtDevice, filled: Filled):
    tensor = filled(1)
    buffer = device.buffer(tensor)
    assert not device.is_outdated(buffer)
    tensor[1] = 5
    assert device.is_outdated(buffer)
    assert torch.equal(device.to_torch(buffer), filled(1))
    device.refresh(buffer)
    assert not device.is_outdated(buffer)
    assert torch.equal(device.to_torch(buffer), tensor)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float8_e4m3fn]
)
def test_every_dtype_comes_back(device: NrtDevice, dtype):
    tensor = torch.randint(0, 2, (5, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    back = device.to_torch(device.buffer(tensor))
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8))


def test_memory_that_cannot_be_copied_is_refused(device: NrtDevice):
    with pytest.raises(DeviceError, match="contiguous and on the CPU"):
        device.buffer(torch.zeros(4, 4).t()[:, 1:])


def test_wrong_buffers_never_reach_the_runtime(device: NrtDevice, artifact, filled: Filled, runtime, standin):
    executable = device.load(artifact)
    good = device.buffer(filled(1))
    elsewhere = NrtDevice(runtime, core=1).buffer(filled(1))
    for buffers, message in (
        ([good], "takes 2 buffers, got 1"),
        ([good, device.buffer(filled(1, 4, 3))], r"input 1 .* is float32\[3, 4\], got a buffer of float32\[4, 3\]"),
        ([good, device.buffer(torch.zeros(3, 4, dtype=torch.int32))], "got a buffer of int32"),
        ([elsewhere, good], "input 0 is a buffer of another core"),
    ):
        with pytest.raises(DeviceError, match=message):
            executable.execute(buffers)
    assert standin.notes() == []


def test_programs_on_two_cores_do_not_meet(runtime, artifact, filled: Filled):
    devices = [NrtDevice(runtime, core) for core in (0, 3)]
    loaded = [device.load(artifact) for device in devices]
    for value, (device, executable) in enumerate(zip(devices, loaded, strict=True)):
        product, _ = executable.execute([device.buffer(filled(value)), device.buffer(filled(4))])
        assert torch.equal(device.to_torch(product), filled(4 * value))


def test_a_core_that_is_not_there_is_refused(runtime):
    with pytest.raises(DeviceError, match="core 4: this process sees 4"):
        NrtDevice(runtime, 4)


def test_another_thread_is_refused(device: NrtDevice, artifact, filled: Filled):
    executable = device.load(artifact)
    buffers = [device.buffer(filled(1)), device.buffer(filled(2))]
    assert "thread that loaded it" in str(error_elsewhere(lambda: executable.execute(buffers)))
    assert "thread that made it" in str(error_elsewhere(lambda: device.load(artifact)))
    assert "thread that made it" in str(error_elsewhere(lambda: device.buffer(filled(1))))
    executable.execute(buffers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "trn3"}, "compiled for 'trn3', this machine runs 'trn2'"),
        ({"runtime_zero": True}, "exact numerics"),
        ({"payload": b"no NEFF" * 200}, "cannot be loaded: NEFF in memory: NEFF header"),
        ({"outputs": (TensorType(torch.float32, (3, 4)), TensorType(torch.float32, (3, 5)))}, "output1 of 48 bytes"),
        ({"outputs": (TensorType(torch.float32, (3, 4)),) * 3}, r"missing \['output2'\]"),
        ({"inputs": (TensorType(torch.float32, (3, 4)),)}, r"unknown \['input1'\]"),
    ],
)
def test_a_program_that_does_not_fit_is_refused_before_it_runs(device: NrtDevice, artifact, standin, change, message):
    with pytest.raises(DeviceError, match=message):
        device.load(replace(artifact, **change))
    gc.collect()
    assert standin.alive() == NOTHING


def test_a_program_for_other_logical_cores_is_refused(device: NrtDevice, artifact, module):
    payload = standin_neff(module, logical_core_size=1)
    with pytest.raises(DeviceError, match="expected 2; compile it with --lnc 2, or set NEURON_LOGICAL_NC_CONFIG=1"):
        device.load(replace(artifact, payload=payload))


def test_a_dropped_parameter_is_not_given_to_the_program(device: NrtDevice, artifact, filled: Filled):
    """The compiler drops parameters that nothing reads."""
    kept = replace(artifact, inputs=(*artifact.inputs, TensorType(torch.int32, (7,))))
    unread = device.buffer(torch.zeros(7, dtype=torch.int32))
    product, _ = device.load(kept).execute([device.buffer(filled(2)), device.buffer(filled(3)), unread])
    assert torch.equal(device.to_torch(product), filled(6))


@pytest.mark.parametrize("fault", STATUSES, ids=lambda one: one.name)
def test_a_load_may_be_refused_with_every_status(device: NrtDevice, artifact, standin, fault: Status):
    standin.fail("nrt_load", fault)
    with pytest.raises(DeviceError) as caught:
        device.load(artifact)
    assert f"nrt_load of a program for trn2 failed: {fault.name} ({fault.number}): {fault.meaning}" in str(caught.value)
    assert fault.next_step in str(caught.value)
    if fault.is_final:
        with pytest.raises(DeviceError, match=f"unusable since {fault.name}"):
            device.load(artifact)
    else:
        device.load(artifact)


EXECUTION_FAULTS = (
    "NRT_TIMEOUT",
    "NRT_HW_ERROR",
    "NRT_EXEC_COMPLETED_WITH_NUM_ERR",
    "NRT_EXEC_NC_BUSY",
    "NRT_EXEC_OOB",
    "NRT_EXEC_HW_ERR_HBM_UE",
)


@pytest.mark.parametrize("name", EXECUTION_FAULTS)
def test_a_failed_execution_is_named_and_leaves_nothing_behind(device, artifact, filled: Filled, standin, name):
    executable = device.load(artifact)
    buffers = [device.buffer(filled(2)), device.buffer(filled(3))]
    fault = status(name)
    standin.fail("nrt_execute", fault)
    with pytest.raises(DeviceError, match=rf"nrt_execute failed: {name} \({fault.number}\)"):
        executable.execute(buffers)
    if fault.is_final:
        with pytest.raises(DeviceError, match=f"the Neuron runtime is unusable since {name}"):
            executable.execute(buffers)
        with pytest.raises(DeviceError, match=f"the Neuron runtime is unusable since {name}"):
            device.buffer(filled(1))
    else:
        product, _ = executable.execute(buffers)
        assert torch.equal(device.to_torch(product), filled(6))
    del executable, buffers
    device.runtime.close()
    assert standin.alive() == NOTHING


@pytest.mark.parametrize(
    "function", ["nrt_tensor_allocate", "nrt_tensor_write", "nrt_allocate_tensor_set", "nrt_add_tensor_to_tensor_set"]
)
def test_memory_that_runs_out_at_any_point_is_given_back(device, artifact, filled: Filled, standin, function):
    executable = device.load(artifact)

    def run():
        product, _ = executable.execute([device.buffer(filled(2)), device.buffer(filled(3))])
        return device.to_torch(product)

    for after in range(3 if function == "nrt_tensor_allocate" else 2):
        standin.fail(function, status("NRT_RESOURCE"), after)
        with pytest.raises(DeviceError, match=rf"{function}.*NRT_RESOURCE \(4\): no memory left on the device"):
            run()
        gc.collect()
        assert standin.alive() == {"tensors": 0, "sets": 0, "models": 1}
    assert torch.equal(run(), filled(6))
