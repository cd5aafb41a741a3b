"""Any operations of a module are a module of their own that computes what they did."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
import torch
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.errors import ArtifactError, GraphError
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_modules import argument_types, lower_step, random_arguments, run_module, text_of, values_of
from random_graphs import STEP_LISTS, STEPS, RandomModel, example_inputs
from stablehlo_texts import main, update_in_place

F4 = "tensor<4xf32>"

CHAIN = f"""func.func public @main(%x: {F4}, %unused: {F4}, %z: {F4}) -> ({F4}, {F4}, {F4}) {{
  %a = stablehlo.negate %z : {F4}
  %b = stablehlo.add %a, %x : {F4}
  %c = stablehlo.multiply %b, %a : {F4}
  return %b, %x, %c : {F4}, {F4}, {F4}
}}"""

PAIR = f"""%y, %i = "stablehlo.sort"(%x, %z) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %less = stablehlo.compare LT, %a, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }}) : ({F4}, {F4}) -> ({F4}, {F4})"""

LOOP = f"""func.func public @main(%x: {F4}, %limit: tensor<i32>, %step: {F4}) -> {F4} {{
  %one = stablehlo.constant dense<1> : tensor<i32>
  %double = stablehlo.add %step, %step : {F4}
  %start = stablehlo.constant dense<0> : tensor<i32>
  %n, %y = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, {F4}
  cond {{
    %go = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %next = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.add %v, %double : {F4}
    stablehlo.return %next, %w : tensor<i32>, {F4}
  }}
  return %y : {F4}
}}"""


def subject(text: str) -> ModuleSubject:
    return ModuleSubject(text.encode())


def body_of(module: bytes) -> list[str]:
    """The lines of the entry function with its first and its return."""
    lines = [line.strip() for line in text_of(module).splitlines()]
    start = next(number for number, line in enumerate(lines) if "@main" in line)
    return lines[start : lines.index("}", start)]


def test_items_are_operations_and_results():
    items = subject(CHAIN).items
    assert [one.name for one in items] == ["%0", "%1", "%2", "result 0", "result 1", "result 2"]
    assert items[1].text == f"%1 = stablehlo.add %0, %arg0 : {F4}"
    assert [one.text for one in items[3:]] == [f"return {name} : {F4}" for name in ("%1", "%arg0", "%2")]
    assert [one.reads for one in items] == [(), (0,), (0, 1), (1,), (), (2,)]
    assert [one.is_result for one in items] == [False] * 3 + [True] * 3


def test_missing_values_are_arguments_and_unread_ones_are_returned():
    assert body_of(subject(CHAIN).candidate([2]).module) == [
        f"func.func public @main(%arg0: {F4}, %arg1: {F4}) -> {F4} {{",
        f"%0 = stablehlo.multiply %arg0, %arg1 : {F4}",
        f"return %0 : {F4}",
    ]


def test_arguments_of_the_whole_come_first_and_in_their_order():
    two = subject(CHAIN)
    assert two.part([1]).arguments == [0, 3]
    assert two.part([0, 1]).arguments == [0, 2]
    assert two.part([2]).arguments == [4, 3], "others in the order of their first use"


def test_kept_results_come_first():
    part = subject(CHAIN).part([0, 1, 4, 5])
    assert part.results == [1], "the operation of result 2 is missing"
    assert part.returned == [0, 4]
    assert subject(CHAIN).part([0, 3, 4]).results == [1]
    assert subject(CHAIN).part([0, 1, 2, 5]).returned == [5]


def test_everything_is_the_program_as_it_was():
    whole = subject(CHAIN)
    assert whole.candidate(range(6)).module == whole.module
    assert whole.candidate(range(6)).size == 3
    assert body_of(whole.module)[0].count(F4) == 6, "an argument that nothing reads stays"


def test_nothing_is_no_program():
    for keep in ([], [3], [3, 5]):
        with pytest.raises(GraphError, match="without any operation"):
            subject(CHAIN).candidate(keep)
    for keep in ([0, 6], [-1, 0]):
        with pytest.raises(GraphError, match="of a program that has 6"):
            subject(CHAIN).candidate(keep)
    with pytest.raises(ArtifactError, match="it is empty"):
        ModuleSubject(b"")


def test_results_that_nothing_ever_read_are_not_returned():
    sort = main(f"%x: {F4}, %z: {F4}, %limit: tensor<f32>", PAIR + f"\n%w = stablehlo.negate %y : {F4}", F4)
    assert subject(sort).part([0]).returned == [3]
    assert subject(sort.replace("negate %y", "negate %x").replace("return %y", "return %w")).part([0]).returned == [
        3,
        4,
    ]


def test_an_operation_without_results_can_stand_alone():
    call = (
        f"%y = stablehlo.negate %x : {F4}\nstablehlo.custom_call @check(%x) {{has_side_effect = true}} : ({F4}) -> ()"
    )
    checked = subject(main(f"%x: {F4}", call, F4))
    assert checked.items[1].name == "stablehlo.custom_call"
    assert body_of(checked.candidate([1]).module)[-1] == "return"


def test_what_a_region_reads_from_outside_is_an_operand():
    loop = subject(LOOP)
    assert loop.items[3].reads == (0, 1, 2)
    part = loop.part([3])
    assert part.arguments == [0, 1, 5, 3, 4]
    arguments = [torch.ones(4), torch.tensor(3, dtype=torch.int32), torch.full((4,), 2.0)]
    values = values_of(loop.module, arguments, part.arguments)
    (alone,) = run_module(loop.candidate([3]).module, [values[one] for one in part.arguments])
    assert alone.tolist() == [13.0] * 4


OFFERED = update_in_place(read_late=False)  # %old is item 0, %new item 1; results 0 and 1 are %new and %old
ENTRY_ALIAS = """{alias = {kind = "must_alias", parameter_index = array<i64>, parameter_number = 0 : i64},
  output_index = array<i64: 0>}"""
STATED = (
    f"module attributes {{mhlo.input_output_alias = [{ENTRY_ALIAS}]}} "
    f"{{{OFFERED.replace('{tf.aliasing_output = 0 : i32}', '')}}}"
)


@pytest.mark.parametrize("text", [OFFERED, STATED])
@pytest.mark.parametrize(
    ("keep", "aliases"), [([0, 1, 2], {0: 0}), ([1, 2], {0: 0}), ([0, 1, 3], {}), ([0, 2], {}), ([0, 1, 2, 3], {0: 0})]
)
def test_an_alias_stays_as_long_as_both_ends_do(text, keep, aliases):
    candidate = subject(text).candidate(keep)
    assert candidate.aliases == aliases
    assert ("alias" in text_of(candidate.module)) == bool(aliases)


def test_the_alias_of_a_single_result_has_the_empty_index():
    found = text_of(subject(STATED).candidate([1, 2]).module)
    assert "parameter_number = 0 : i64}, output_index = array<i64>}]" in found


def test_aliases_count_in_what_is_left():
    lines = f"%a = stablehlo.negate %x : {F4}\n%b = stablehlo.negate %z : {F4}"
    text = f"""func.func public @main(%x: {F4}, %z: {F4} {{tf.aliasing_output = 1 : i32}}) -> ({F4}, {F4}) {{
      {lines}
      return %a, %b : {F4}, {F4}
    }}"""
    assert subject(text).candidate([1, 3]).aliases == {0: 0}
    assert subject(text).candidate([0, 1, 3]).aliases == {0: 1}


def test_one_operation_is_the_same_bytes_at_any_place():
    lines = "\n".join(
        f'%a{n} = stablehlo.add %x, %{"x" if n == 0 else f"b{n - 1}"} : {F4} loc("add.{n}")\n'
        f'%b{n} = stablehlo.negate %a{n} : {F4} loc("model/layer.py":7:{n})'
        for n in range(3)
    )
    layers = subject(main(f"%x: {F4}", lines + f"\n%y = stablehlo.negate %b2 : {F4}", F4))
    assert layers.items[3].line == "model/layer.py:7"
    assert layers.candidate([2, 3]).digest == layers.candidate([4, 5]).digest
    assert layers.candidate([1]).digest != layers.candidate([6]).digest, "their lines differ"


def test_groups_are_runs_of_one_file():
    files = ["a.py", "a.py", "b.py", "a.py", None, "b.py"]
    lines = [
        f"%v{n} = stablehlo.negate %x : {F4}" + (f' loc("model/{file}":{n + 1}:0)' if file else "")
        for n, file in enumerate(files)
    ]
    items = subject(main(f"%x: {F4}", "\n".join([*lines, f"%y = stablehlo.add %x, %v2 : {F4}"]), F4)).items
    a, b = "model/a.py", "model/b.py"
    assert [one.group for one in items] == [a, a, b, f"{a} (2)", "", f"{b} (2)", "", ""]


def calling(numbers: str = "12") -> str:
    first, second = numbers
    double = "stablehlo.add %x, %x"
    return f"""
      func.func private @double_{first}(%x: {F4}) -> {F4} {{ %y = {double} : {F4} return %y : {F4} }}
      func.func private @outer_{second}(%x: {F4}) -> {F4} {{
        %y = call @double_{first}(%x) : ({F4}) -> {F4}
        return %y : {F4}
      }}
      func.func private @double_7(%x: {F4}) -> {F4} {{ %y = {double} : {F4} return %y : {F4} }}
      func.func private @half_8(%x: {F4}) -> {F4} {{ %y = stablehlo.negate %x : {F4} return %y : {F4} }}
      func.func public @main(%x: {F4}) -> {F4} {{
        %a = stablehlo.composite "model.outer" %x {{decomposition = @outer_{second}}} : ({F4}) -> {F4}
        %b = stablehlo.composite "model.double" %a {{decomposition = @double_7}} : ({F4}) -> {F4}
        %c = call @double_{first}(%b) : ({F4}) -> {F4}
        %y = call @half_8(%c) : ({F4}) -> {F4}
        return %y : {F4}
      }}"""


def test_functions_are_carried_along_if_they_are_needed():
    one = subject(calling())
    functions = [text_of(one.candidate([number]).module).count("func.func private") for number in range(4)]
    assert functions == [2, 1, 1, 1]
    assert text_of(one.candidate([0, 1, 2]).module).count("func.func private") == 2, "equal functions are one"


def test_names_of_functions_do_not_depend_on_their_place():
    assert subject(calling("12")).candidate([0, 1]).module == subject(calling("34")).candidate([0, 1]).module


def test_large_constants_and_regions_are_left_out_of_the_text():
    items = subject(LOOP).items
    assert items[3].text == (
        f"%0:2 = stablehlo.while (%c_0, %arg0) : (tensor<i32>, {F4}) -> (tensor<i32>, {F4})".replace(
            "%0", items[3].name
        )
    )
    values = ", ".join(map(str, range(9)))
    many = main("", f"%y = stablehlo.constant dense<[{values}]> : tensor<9xi32>", "tensor<9xi32>")
    assert subject(many).items[0].text == "%c = stablehlo.constant dense<...> : tensor<9xi32>"


def check_parts(whole: ModuleSubject, keeps: list[list[int]]) -> None:
    """Candidates compute the values that the whole program does, from those that it has at the cut."""
    parts = [whole.part(keep) for keep in keeps]
    wanted = [number for part in parts for number in (*part.arguments, *part.returned)]
    values = values_of(whole.module, random_arguments(whole.module), wanted)
    whole_aliases = whole.candidate(range(len(whole.items))).aliases
    for keep, part in zip(keeps, parts, strict=True):
        candidate = whole.candidate(keep)
        assert len(argument_types(candidate.module)) == len(part.arguments)
        outputs = run_module(candidate.module, [values[one] for one in part.arguments])
        assert len(outputs) == len(part.returned)
        for output, number in zip(outputs, part.returned, strict=True):
            torch.testing.assert_close(output, values[number], rtol=0, atol=0, equal_nan=True)
        for output, source in candidate.aliases.items():
            assert whole_aliases[part.results[output]] == part.arguments[source]


def exact_step(steps: list[str]) -> ModuleSubject:
    # Barriers keep XLA from contracting a product and a sum that it sees together.
    options = LoweringOptions(numerics="exact", float8=False)
    examples = dict(zip(("x", "rows"), example_inputs(), strict=True))
    step = lower_step(RandomModel(steps), examples, "host", options)
    return ModuleSubject(step.bytecode)


def check_random_part(steps: list[str], choice: random.Random, share: float) -> None:
    whole = exact_step(steps)
    check_parts(whole, [[0, *(index for index in range(1, len(whole.items)) if choice.random() < share)]])


RANDOM_PARTS = (STEP_LISTS, st.randoms(use_true_random=False), st.floats(0.05, 0.95))


@settings(max_examples=3)
@given(*RANDOM_PARTS)
def test_parts_of_random_graphs_compute_what_they_did(steps, choice, share):
    check_random_part(steps, choice, share)


@pytest.mark.slow
@settings(max_examples=100)
@given(*RANDOM_PARTS)
def test_many_parts_of_random_graphs_compute_what_they_did(steps, choice, share):
    check_random_part(steps, choice, share)


def test_parts_of_a_graph_with_every_step_compute_what_they_did():
    whole = exact_step([*STEPS])
    count = len(whole.items)
    choice = random.Random(4)
    check_parts(whole, [[*range(count - 1)], *[sorted({0, *choice.sample(range(count), size)}) for size in (9, 40)]])


PROGRAM = """
import hashlib, sys
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
whole = ModuleSubject(sys.stdin.buffer.read())
print(*[whole.candidate([index]).digest for index in range(4)])
"""


def test_candidates_are_the_same_in_every_process():
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    there = subprocess.run(command, input=calling().encode(), capture_output=True, check=True, env=environment).stdout
    here = subject(calling())
    assert there.decode().split() == [here.candidate([index]).digest for index in range(4)]
