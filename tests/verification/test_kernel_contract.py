"""The contract tells kernels that compute the operator from those that do not; stand-ins play the kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.compiler.lowering.device_kernels.kernel import Bar
from deepinfer_neuron.compiler.lowering.device_kernels.rms_norm import RMS_NORM
from deepinfer_neuron.compiler.lowering.device_kernels.rotate import ROTATE
from deepinfer_neuron.compiler.lowering.device_kernels.table import KERNELS
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model.kernels import normalization, rotary  # noqa: F401
from deepinfer_neuron.verification.kernel_contract import check_kernel, simulated
from stand_in_kernels import stand_in_rms_norm, stand_in_wrong_rms_norm


def test_a_stand_in_with_another_order_of_operations_passes() -> None:
    check = check_kernel(RMS_NORM, stand_in_rms_norm)
    assert check.passed, check.problems
    assert check.examples == 5
    assert check.differences[torch.float32].mismatched > 0, "a stand-in that copies eager proves nothing"
    assert {dtype: one.elements for dtype, one in check.differences.items()} == {
        torch.bfloat16: 64 + 4 * 128,
        torch.float32: 4 * 3 * 128 + 2 * 32,
        torch.float16: 3 * 96,
    }


def test_the_library_s_rotation_by_its_documentation_passes(nki_standin: None) -> None:
    check = check_kernel(ROTATE, simulated(ROTATE))
    assert check.passed, check.problems
    assert set(check.differences) == {torch.bfloat16, torch.float32}


def test_pairs_in_the_other_layout_are_found(nki_standin: None) -> None:
    run = simulated(ROTATE)
    check = check_kernel(ROTATE, lambda operands, constants: run(operands, {**constants, "contiguous_layout": True}))
    assert len(check.problems) == check.examples


def test_wrong_values_are_found_in_each_example() -> None:
    check = check_kernel(RMS_NORM, stand_in_wrong_rms_norm)
    assert not check.passed
    assert {problem.partition(":")[0] for problem in check.problems} == {f"example {number}" for number in range(5)}


def test_the_bar_decides() -> None:
    strict = replace(RMS_NORM, bars={dtype: Bar(0) for dtype in RMS_NORM.bars})
    assert any("ulps" in problem for problem in check_kernel(strict, stand_in_rms_norm).problems)
    few = replace(RMS_NORM, bars={dtype: Bar(8, fraction=0) for dtype in RMS_NORM.bars})
    assert check_kernel(few, stand_in_rms_norm).problems
    none = replace(RMS_NORM, bars={torch.float32: RMS_NORM.bars[torch.float32]})
    assert "example 0: no bar for torch.bfloat16" in check_kernel(none, stand_in_rms_norm).problems


def test_outputs_of_another_type_are_found() -> None:
    check = check_kernel(RMS_NORM, lambda operands, constants: [operands[0].double()])
    assert check.problems[0] == "example 0: outputs are float64[1, 64] instead of float32[1, 64]"


def test_writing_into_an_operand_needs_an_alias() -> None:
    def in_place(operands, constants):
        (result,) = stand_in_rms_norm(operands, constants)
        return [operands[0].copy_(result)]

    check = check_kernel(RMS_NORM, in_place)
    assert "example 0: operand 0 was written into, and no alias says so" in check.problems
    assert check_kernel(replace(RMS_NORM, aliases={0: 0}), in_place).passed


def test_an_example_that_the_kernel_does_not_accept_is_found() -> None:
    check = check_kernel(replace(RMS_NORM, accepts=lambda call: call.arguments["eps"] < 1e-10), stand_in_rms_norm)
    assert check.problems == tuple(
        f"example {number}: the kernel does not accept its own example" for number in (1, 2, 4)
    )


def test_a_kernel_without_examples_does_not_pass() -> None:
    assert not check_kernel(replace(RMS_NORM, examples=lambda generator: ()), stand_in_rms_norm).passed


def test_examples_are_those_of_the_seed() -> None:
    first, again = (check_kernel(RMS_NORM, stand_in_rms_norm, seed=3).differences for _ in range(2))
    assert first == again != check_kernel(RMS_NORM, stand_in_rms_norm, seed=4).differences


def test_an_operator_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no operator deepinfer\.nothing\.default"):
        check_kernel(replace(RMS_NORM, operator="deepinfer.nothing.default"), stand_in_rms_norm)


def test_the_compiler_s_kernels_cannot_be_simulated() -> None:
    with pytest.raises(ConfigError, match="inside neuronx-cc"):
        simulated(RMS_NORM)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_ships_says_how_it_is_known_and_has_a_bar_for_each_example(kernel) -> None:
    assert kernel.source
    dtypes = {arguments[0].dtype for arguments in kernel.examples(torch.Generator())}
    assert dtypes == set(kernel.bars)
