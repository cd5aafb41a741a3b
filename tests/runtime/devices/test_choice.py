"""The environment decides which device programs run on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from deepinfer_neuron.errors import DeviceError
from deepinfer_neuron.runtime.devices import choice
from deepinfer_neuron.runtime.devices.pjrt import host_device

ASK = "from deepinfer_neuron.runtime.devices.choice import default_target, device_for; print(default_target())"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True)


def test_programs_run_on_the_host_unless_asked_otherwise():
    assert choice.default_target() == "host"
    assert choice.device_for("host") is host_device()
    with pytest.raises(DeviceError, match="programs for trn2 run on Neuron cores: set DEEPINFER_NEURON_DEVICE=neuron"):
        choice.device_for("trn2")


def test_a_neuron_core_is_taken_when_asked_for(on_neuron):
    assert choice.default_target() == "trn2"
    device = choice.device_for("trn2")
    assert device.has_own_memory
    assert choice.device_for("trn2") is device
    assert choice.device_for("host") is host_device()


def test_the_variables_reach_the_runtime(standin):
    result = run(ASK, DEEPINFER_NEURON_DEVICE="neuron", DEEPINFER_NEURON_LIBNRT=str(standin.path))
    assert (result.stdout.strip(), result.stderr) == ("trn2", "")


def test_a_machine_without_the_runtime_is_told_what_is_missing():
    result = run(ASK, DEEPINFER_NEURON_DEVICE="neuron", DEEPINFER_NEURON_LIBNRT="nowhere/libnrt.so.1")
    assert "there is no Neuron runtime at nowhere/libnrt.so.1: install aws-neuronx-runtime-lib" in result.stderr
