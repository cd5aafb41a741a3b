"""Kernels of users come before those that ship, and a kernel that cannot work is refused when it is registered."""

from __future__ import annotations

from dataclasses import replace

import deepinfer_neuron
import pytest
from deepinfer_neuron.compiler.lowering.device_kernels.kernel import CompilerCall
from deepinfer_neuron.compiler.lowering.device_kernels.registry import known_kernels, register_kernel
from deepinfer_neuron.compiler.lowering.device_kernels.rms_norm import RMS_NORM
from deepinfer_neuron.compiler.lowering.device_kernels.table import KERNELS
from deepinfer_neuron.errors import ConfigError
from stand_in_kernels import nki_rms_norm

MINE = replace(RMS_NORM, name="mine")


def test_what_ships_could_be_registered() -> None:
    for kernel in KERNELS:
        register_kernel(replace(kernel, name=f"another {kernel.name}"))


def test_users_kernels_come_first_in_the_order_of_registration() -> None:
    assert known_kernels() == KERNELS
    register_kernel(MINE)
    deepinfer_neuron.register_kernel(nki_rms_norm())
    assert [one.name for one in known_kernels()[:2]] == ["mine", "stand-in rms_norm"]
    assert known_kernels()[2:] == KERNELS


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RMS_NORM, "another name"),
        (replace(MINE, code=CompilerCall("AwsNeuronSinkhorn", MINE.functions[-1])), "AwsNeuronSinkhorn.*NCC_EVRF015"),
        (replace(MINE, targets=("host",)), r"\('host',\).*trn1, trn2, trn3"),
        (replace(MINE, targets=()), "trn1, trn2, trn3"),
        (replace(MINE, operator="rms_norm"), "no overload"),
        (replace(MINE, bars={}), "no bar"),
    ],
)
def test_a_kernel_that_cannot_work_is_refused(kernel, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        register_kernel(kernel)
    assert known_kernels() == KERNELS


def test_a_name_is_taken_once() -> None:
    register_kernel(MINE)
    with pytest.raises(ConfigError, match="'mine'"):
        register_kernel(MINE)
