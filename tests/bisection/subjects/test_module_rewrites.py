"""Functions in the places of their calls, and one operation for equal ones, compute what there was before."""

from __future__ import annotations

import torch
from deepinfer_neuron.bisection.subjects.module_reader import read_module
from deepinfer_neuron.bisection.subjects.module_rewrites import deduplicated, inlined
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.lowering.record import record
from deepinfer_neuron.model.kernels.hyper_connection import sinkhorn
from deepinfer_neuron.model.kernels.quantization import quantize_fp8
from lowered_modules import run_module, text_of

F4 = "tensor<4xf32>"

NESTED = f"""
  func.func private @inner(%x: {F4}, %z: {F4}) -> ({F4}, {F4}) {{
    %y = stablehlo.subtract %x, %z : {F4}
    return %y, %z : {F4}, {F4}
  }}
  func.func private @outer(%x: {F4}) -> {F4} {{
    %two = stablehlo.add %x, %x : {F4}
    %y:2 = call @inner(%two, %x) : ({F4}, {F4}) -> ({F4}, {F4})
    return %y#0 : {F4}
  }}
  func.func private @kernel(%x: {F4}) -> {F4}
  func.func public @main(%x: {F4}, %limit: tensor<i32>) -> ({F4}, {F4}) {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n, %v = stablehlo.while(%i = %one, %w = %x) : tensor<i32>, {F4}
    cond {{
      %go = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %next = stablehlo.add %i, %one : tensor<i32>
      %a = func.call @outer(%w) : ({F4}) -> {F4} loc("model/loop.py":3:0)
      %b = stablehlo.add %a, %x : {F4}
      stablehlo.return %next, %b : tensor<i32>, {F4}
    }}
    %p:2 = stablehlo.composite "model.inner" %v, %x {{decomposition = @inner}} : ({F4}, {F4}) -> ({F4}, {F4})
    return %p#0, %p#1 : {F4}, {F4}
  }}"""


def test_one_level_at_a_time():
    one = inlined(NESTED.encode())
    assert text_of(one).count("call @inner") == 1, "what the call in the loop called"
    assert "composite" not in text_of(one)
    assert "@outer" not in text_of(one)
    two = inlined(one)
    assert "call" not in text_of(two)
    assert "func.func private" not in text_of(two)
    assert inlined(two) is two


def test_values_are_those_of_the_calls():
    callable = NESTED.replace(f"func.func private @kernel(%x: {F4}) -> {F4}", "")
    arguments = [torch.randn(4), torch.tensor(4, dtype=torch.int32)]
    expected = run_module(callable, arguments)
    one = inlined(callable.encode())
    for module in (one, inlined(one)):
        assert all(map(torch.equal, run_module(module, arguments), expected))


def test_operations_have_the_line_of_their_call():
    text = text_of(inlined(NESTED.encode()), locations=True)
    assert text.count('loc("model/loop.py":3:0)') >= 1
    assert "call @inner" in text


def test_a_function_without_a_body_stays():
    text = f"""func.func private @kernel({F4}) -> {F4}
      func.func public @main(%x: {F4}) -> {F4} {{
        %y = call @kernel(%x) : ({F4}) -> {F4}
        return %y : {F4}
      }}"""
    assert inlined(text.encode()) == text.encode()
    assert "private @kernel" in text_of(ModuleSubject(text.encode()).candidate([0]).module)


def test_a_kernel_of_the_model_in_its_parts():
    arguments = [torch.randn(2, 128).bfloat16(), torch.randn(2, 4, 4)]
    step = lower_graph(
        record(lambda x, y: (quantize_fp8(x), sinkhorn(y, 3, 1e-6)), arguments), LoweringOptions(numerics="exact")
    )
    whole = ModuleSubject(step.bytecode)
    parts = ModuleSubject(inlined(whole.module))
    assert len(parts.items) > 10 * len(whole.items)
    zero = torch.zeros((), dtype=torch.int32)
    expected = run_module(step.bytecode, [*arguments, zero])
    assert all(map(torch.equal, run_module(parts.module, [*arguments, zero]), expected))


def module(*lines: str, returned: str) -> bytes:
    body = "\n".join(f"{line} : {F4}" for line in lines)
    return read_module(f"func.func @main(%x: {F4}) -> {F4} {{\n{body}\nreturn {returned} : {F4}\n}}".encode())


def test_equal_operations_on_equal_values_are_one():
    twice = module(
        *("%0 = stablehlo.sine %x", "%1 = stablehlo.negate %0", "%2 = stablehlo.sine %x", "%3 = stablehlo.negate %2"),
        "%4 = stablehlo.multiply %1, %3",
        returned="%4",
    )
    once = deduplicated(twice)
    assert [item.text.split(" = ")[1] for item in ModuleSubject(once).items[:-1]] == [
        f"stablehlo.sine %arg0 : {F4}",
        f"stablehlo.negate %0 : {F4}",
        f"stablehlo.multiply %1, %1 : {F4}",
    ]
    x = torch.randn(4)
    assert torch.equal(run_module(once, [x])[0], run_module(twice, [x])[0])
    assert deduplicated(once) == once


def test_a_module_without_equal_operations_stays_the_same_bytes():
    different = module("%0 = stablehlo.sine %x", "%1 = stablehlo.cosine %0", returned="%1")
    assert deduplicated(different) is different
