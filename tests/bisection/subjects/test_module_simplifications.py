"""Every proposal is a valid module that is simpler than its own."""

from __future__ import annotations

import re

import pytest
from deepinfer_neuron.bisection.subjects.module_simplifications import (
    MODULE_PROPOSERS,
    candidate_of,
    constants_as_arguments,
    merged_arguments,
    without_unused_arguments,
    zero_constants,
)
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_modules import argument_types, lower_step, main_of, parsed, text_of
from random_graphs import STEP_LISTS, RandomModel, example_inputs
from stablehlo_texts import constant, main, update_in_place

F2 = "tensor<2xf32>"

CONSTANTS = f"""
  func.func private @two() -> {F2} {{ %y = stablehlo.constant dense<2.0> : {F2} return %y : {F2} }}
  func.func public @main(%x: {F2} {{tf.aliasing_output = 0 : i32}}) -> {F2} {{
    %a = stablehlo.constant dense<[1.0, 3.0]> : {F2}
    %b = stablehlo.constant dense<0.0> : {F2}
    %two = call @two() : () -> {F2}
    %c = stablehlo.add %a, %b : {F2}
    %y = stablehlo.add %c, %x : {F2}
    return %y : {F2}
  }}"""


def test_constants_become_zero():
    proposals = list(zero_constants(CONSTANTS.encode()))
    assert [text_of(one).count("dense<0.0") for one in proposals] == [3, 2, 2]
    assert list(zero_constants(proposals[0])) == []


@pytest.mark.parametrize(
    ("element", "value", "zero"),
    [
        ("i1", "[true, false]", "dense<false>"),
        ("ui8", "[1, 2]", "dense<0>"),
        ("bf16", "[1.0, 2.0]", "dense<0.0"),
        ("f8E4M3FN", "[1.0, 2.0]", "dense<0.0"),
    ],
)
def test_zero_of_every_type(element, value, zero):
    type = f"tensor<2x{element}>"
    (proposal,) = zero_constants(main("", f"%y = stablehlo.constant dense<{value}> : {type}", type).encode())
    assert zero in text_of(proposal)


@pytest.mark.parametrize(
    ("element", "value"), [("f8E8M0FNU", "[1.0, 2.0]"), ("complex<f32>", "[(1.0, 2.0), (0.0, 1.0)]")]
)
def test_types_without_a_plain_zero_stay(element, value):
    type = f"tensor<2x{element}>"
    text = main("", f"%y = stablehlo.constant dense<{value}> : {type}", type)
    assert list(zero_constants(text.encode())) == []


def test_constants_become_arguments():
    proposals = list(constants_as_arguments(CONSTANTS.encode()))
    assert len(proposals) == 3
    assert argument_types(proposals[0]) == [F2] * 3
    for one in proposals:
        candidate = candidate_of(one)
        assert candidate.aliases == {0: 0}
        assert candidate.size == candidate_of(CONSTANTS.encode()).size - (2 if one is proposals[0] else 1)


def test_a_shape_that_is_a_constant_stays_as_it_is():
    body = f"""%s = stablehlo.constant dense<[2]> : tensor<1xi32>
      %y = stablehlo.dynamic_reshape %x, %s : ({F2}, tensor<1xi32>) -> {F2}"""
    text = main(f"%x: {F2}", body, F2)
    assert list(zero_constants(text.encode())) == []
    (proposal,) = constants_as_arguments(text.encode())
    assert argument_types(proposal) == [F2, "tensor<1xi32>"]


def test_arguments_that_nothing_reads_go():
    text = f"""func.func public @main(%u: tensor<3xi32>, %x: {F2} {{mhlo.sharding = "s"}},
        %w: {F2} {{tf.aliasing_output = 1 : i32}}, %z: {F2} {{tf.aliasing_output = 0 : i32}}) -> ({F2}, {F2}) {{
      %y = stablehlo.add %x, %z : {F2}
      return %y, %y : {F2}, {F2}
    }}"""
    proposals = list(without_unused_arguments(text.encode()))
    assert [argument_types(one) for one in proposals] == [[F2, F2], [F2] * 3, ["tensor<3xi32>", F2, F2]]
    assert [candidate_of(one).aliases for one in proposals] == [{0: 1}, {0: 2, 1: 1}, {0: 2}]
    assert 'mhlo.sharding = "s"}, %arg1' in text_of(proposals[0])


def test_arguments_of_one_type_become_one():
    body = f"""%a = stablehlo.add %p, %q : {F2}
      %b = stablehlo.add %a, %r : {F2}
      %y = stablehlo.dynamic_slice %b, %i, sizes = [2] : ({F2}, tensor<i32>) -> {F2}"""
    text = main(f"%p: {F2}, %i: tensor<i32>, %q: {F2}, %r: {F2}", body, F2)
    proposals = list(merged_arguments(text.encode()))
    assert [len(argument_types(one)) for one in proposals] == [2, 3, 3, 3]
    assert "stablehlo.add %arg2, %arg2" not in text_of(proposals[3])
    assert list(merged_arguments(proposals[0])) == []


def test_an_argument_that_lends_its_memory_stays():
    text = update_in_place(read_late=False)
    merging = text.replace("%z: tensor<2x3xf32>", "%z: tensor<2x3xf32>, %w: tensor<4x3xf32>").replace("%x", "%v")
    merging = merging.replace("(%v:", "(%first: tensor<4x3xf32>, %v:").replace("negate %v", "add %first, %w")
    proposals = list(merged_arguments(merging.encode()))
    assert [candidate_of(one).aliases for one in proposals] == [{0: 0}, {0: 0}, {0: 1}, {0: 1}]
    lent = [f"%{name}: {F2} {{tf.aliasing_output = {index} : i32}}" for index, name in enumerate("xz")]
    both = f"""func.func public @main({", ".join(lent)}) -> ({F2}, {F2}) {{ return %x, %z : {F2}, {F2} }}"""
    assert list(merged_arguments(both.encode())) == []


def measure(module: bytes) -> tuple[int, int, int]:
    """What ``MODULE_PROPOSERS`` makes smaller: operations, constants that are not zero, arguments."""
    with shared_context():
        whole = parsed(module)
        operations = len(list(main_of(whole).regions[0].blocks[0].operations))
    constants = re.findall(r"stablehlo\.constant dense<(.*?)>", text_of(module))
    return operations, sum(one not in ("0", "false", "0.000000e+00") for one in constants), len(argument_types(module))


@settings(max_examples=8)
@given(STEP_LISTS, st.randoms(use_true_random=False))
def test_every_proposal_is_simpler(steps, choice):
    options = LoweringOptions(float8=False)
    step = lower_step(RandomModel(steps), dict(zip(("x", "rows"), example_inputs(), strict=True)), "host", options)
    whole = ModuleSubject(step.bytecode)
    keep = choice.sample(range(len(whole.items)), min(6, len(whole.items)))
    module = whole.candidate([0, *keep]).module
    before = measure(module)
    for proposer in MODULE_PROPOSERS:
        for proposal in proposer(module):
            parsed(proposal)
            assert measure(proposal) < before


def test_a_search_that_takes_everything_ends_with_the_simplest():
    step = constant("i32", 5).encode()
    taken = 0
    module = step
    while simpler := next((one for proposer in MODULE_PROPOSERS for one in proposer(module)), None):
        module = simpler
        taken += 1
    assert taken == 2, "the constant as zero, then as an argument"
    assert text_of(module).count("stablehlo") == 0
