"""Equal operations become one, and compute what they did."""

from __future__ import annotations

import torch
from deepinfer_neuron.bisection.subjects.module_merging import merged
from deepinfer_neuron.bisection.subjects.module_reader import read_module
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from lowered_modules import run_module

F4 = "tensor<4xf32>"


def module(*lines: str, returned: str) -> bytes:
    body = "\n".join(f"{line} : {F4}" for line in lines)
    return read_module(f"func.func @main(%x: {F4}) -> {F4} {{\n{body}\nreturn {returned} : {F4}\n}}".encode())


def test_equal_operations_on_equal_values_are_one():
    twice = module(
        *("%0 = stablehlo.sine %x", "%1 = stablehlo.negate %0", "%2 = stablehlo.sine %x", "%3 = stablehlo.negate %2"),
        "%4 = stablehlo.multiply %1, %3",
        returned="%4",
    )
    once = merged(twice)
    assert [item.text.split(" = ")[1] for item in ModuleSubject(once).items[:-1]] == [
        f"stablehlo.sine %arg0 : {F4}",
        f"stablehlo.negate %0 : {F4}",
        f"stablehlo.multiply %1, %1 : {F4}",
    ]
    x = torch.randn(4)
    assert torch.equal(run_module(once, [x])[0], run_module(twice, [x])[0])
    assert merged(once) == once


def test_a_module_without_equal_operations_stays_the_same_bytes():
    different = module("%0 = stablehlo.sine %x", "%1 = stablehlo.cosine %0", returned="%1")
    assert merged(different) is different
