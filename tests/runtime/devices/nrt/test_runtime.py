"""One Neuron runtime a process: opening, closing, what is missing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.errors import ConfigError, DeviceError
from deepinfer_neuron.runtime.devices.nrt import device as device_module
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice, choose_core, neuron_device
from deepinfer_neuron.runtime.devices.nrt.runtime import TARGETS, NrtRuntime, open_runtime
from deepinfer_neuron.runtime.devices.nrt.status import STATUSES, status_of
from deepinfer_neuron.settings import Settings


def test_a_process_has_one_runtime_until_it_closes_it(standin):
    first = open_runtime(standin.path)
    assert open_runtime(standin.path) is first
    with pytest.raises(DeviceError, match=r"nrt_init failed: NRT_FAILURE \(1\)"):
        NrtRuntime(standin.path)
    assert standin.notes() == ["nrt_init: initialised twice"]
    first.close()
    first.close()
    assert open_runtime(standin.path) is not first


def test_what_the_runtime_says_of_the_machine(standin):
    runtime = open_runtime(standin.path)
    assert (runtime.target, runtime.core_count, runtime.logical_core_size) == ("trn2", 4, 2)
    runtime.close()
    for family, target in TARGETS.items():
        standin.machine(family, 2, 1)
        runtime = open_runtime(standin.path)
        assert (runtime.target, runtime.core_count, runtime.logical_core_size) == (target, 2, 1)
        runtime.close()


def test_an_unknown_machine_is_refused_and_the_cores_given_back(standin):
    standin.machine(family=1)
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"instance family 1 \(standin\) is not known here"):
            open_runtime(standin.path)


def test_a_refused_initialisation_can_be_tried_again(standin):
    standin.fail("nrt_init", 1005)
    with pytest.raises(DeviceError, match=r"nrt_init failed: NRT_EXEC_NC_BUSY .* cores of its own"):
        open_runtime(standin.path)
    assert open_runtime(standin.path).is_open


def test_closing_frees_what_is_left_in_order_and_ends_the_device(standin):
    device = NrtDevice(open_runtime(standin.path))
    root = device.buffer(torch.zeros(4, 4))
    part = device.rows(root, 1, 2)
    assert standin.alive()["tensors"] == 2
    device.runtime.close()
    assert standin.alive()["tensors"] == 0
    with pytest.raises(DeviceError, match="the Neuron runtime of this process is closed"):
        device.to_torch(part)
    with pytest.raises(DeviceError, match="the Neuron runtime of this process is closed"):
        device.buffer(torch.zeros(1))
    del root, part
    gc.collect()
    assert standin.notes() == []


def test_a_fork_neither_calls_nor_closes_the_runtime(standin):
    device = NrtDevice(open_runtime(standin.path))
    buffer = device.buffer(torch.ones(2))
    child = os.fork()
    if child == 0:
        try:
            device.to_torch(buffer)
        except DeviceError as error:
            del buffer
            device.runtime.close()
            os._exit(0 if "before a fork" in str(error) and standin.alive()["tensors"] == 1 else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(device.to_torch(buffer), torch.ones(2))


def test_a_process_that_ends_closes_the_runtime(standin):
    code = (
        "import ctypes, sys, torch\n"
        "from pathlib import Path\n"
        "from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice\n"
        "from deepinfer_neuron.runtime.devices.nrt.runtime import open_runtime\n"
        "import atexit\n"
        "path = Path(sys.argv[1])\n"
        "library = ctypes.CDLL(str(path))\n"
        "def check():\n"
        "    text = ctypes.create_string_buffer(4096)\n"
        "    library.nrt_standin_notes(text, ctypes.c_size_t(4096))\n"
        "    print(library.nrt_standin_alive(0), text.value.decode())\n"
        "atexit.register(check)\n"
        "device = NrtDevice(open_runtime(path))\n"
        "kept = device.rows(device.buffer(torch.ones(4, 4)), 0, 2)\n"
    )
    command = [sys.executable, "-c", code, str(standin.path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "0"


def test_a_missing_library_is_named_with_what_to_install(tmp_path: Path):
    with pytest.raises(DeviceError, match=r"there is no Neuron runtime at .*install aws-neuronx-runtime-lib, or set"):
        open_runtime(tmp_path / "libnrt.so.1")


def test_a_file_that_is_no_library_is_refused(tmp_path: Path):
    path = tmp_path / "libnrt.so.1"
    path.write_bytes(b"no library")
    with pytest.raises(DeviceError, match="cannot be loaded"):
        open_runtime(path)


def test_a_library_without_the_functions_is_refused(tmp_path: Path):
    path, source = tmp_path / "libnrt.so.1", tmp_path / "old.c"
    source.write_text("int nrt_init(int a, const char *b, const char *c) { return a && b && c; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    with pytest.raises(DeviceError, match=r"has no nrt_close, nrt_get_version, .*: install the libnrt"):
        open_runtime(path)


def test_every_status_has_a_name_a_meaning_and_a_next_step():
    numbers = [status.number for status in STATUSES]
    assert numbers == sorted(set(numbers))
    for status in STATUSES:
        assert status.name.startswith("NRT_")
        assert status.meaning and status.next_step
        assert status_of(status.number) is status
    assert "4711" in str(status_of(4711))


@pytest.mark.parametrize(
    ("visible", "rank", "count", "core"),
    [("", None, 4, 0), ("", 3, 1, 0), ("2", 3, 1, 0), ("0-3", None, 4, 0), ("4-7", 2, 4, 2)],
)
def test_a_process_takes_the_core_of_its_rank(visible, rank, count, core):
    assert choose_core(Settings(visible_cores=visible, local_rank=rank), count) == core


def test_a_rank_without_a_core_is_refused():
    with pytest.raises(ConfigError, match="DEEPINFER_NEURON_LOCAL_RANK=2: NEURON_RT_VISIBLE_CORES=0-1 has 2 cores"):
        choose_core(Settings(visible_cores="0-1", local_rank=2), 2)


def test_the_rank_decides_what_the_runtime_sees(standin, monkeypatch):
    asked = Settings(device="neuron", neuron_library=standin.path, local_rank=3)
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "")
    monkeypatch.setattr(device_module, "settings", lambda: asked)
    device = neuron_device()
    assert neuron_device() is device
    assert os.environ["NEURON_RT_VISIBLE_CORES"] == "3"
    assert device.runtime.core_count == 1
    device.runtime.close()
    assert neuron_device() is not device
