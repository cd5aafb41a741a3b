"""Every rule has a module that breaks it and one that nearly does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.preflight.check import check_module
from deepinfer_neuron.preflight.rules import RULES
from stablehlo_texts import (
    GIB,
    binary,
    combine,
    constant,
    convolution,
    custom_call,
    dot,
    folded,
    gather,
    gather_of_pairs,
    identity,
    main,
    overwrite,
    random_bits,
    scatter,
    sort,
    top_k,
    unary,
    update_in_place,
    window,
)


@dataclass(frozen=True)
class Broken:
    """``breaks`` has one finding with this code, ``nearly`` has none; named by what both are."""

    code: str
    detail: str
    breaks: str
    nearly: str
    target: str = "trn2"


CASES = {
    ("a tensor of ? rows", "a tensor of 2 rows"): Broken(
        "EMOD025", "tensor<?x3xf32>, which has no fixed size", identity("tensor<?x3xf32>"), identity("tensor<2x3xf32>")
    ),
    ("the ui64 constant 5,000,000,000", "the ui64 constant 4,294,967,295"): Broken(
        "ESFH002",
        "5000000000, which does not fit",
        constant("ui64", 5_000_000_000),
        constant("ui64", 2**32 - 1),
    ),
    ("an i64 tensor", "an i32 tensor"): Broken(
        "-", "makes i64 values", identity("tensor<2xi64>"), identity("tensor<2xi32>")
    ),
    ("a tensor of f8E4M3FN", "a tensor of f8E4M3"): Broken(
        "EVRF051", "makes f8E4M3FN", identity("tensor<2xf8E4M3FN>"), identity("tensor<2xf8E4M3>")
    ),
    ("a tensor of f8E4M3FNUZ", "a tensor of f8E4M3FN on trn3"): Broken(
        "EVRF005", "f8E4M3FNUZ", identity("tensor<2xf8E4M3FNUZ>"), identity("tensor<2xf8E4M3FN>"), "trn3"
    ),
    ("a tensor of f8E4M3B11FNUZ", "a tensor of f8E5M2"): Broken(
        "EVRF005", "B11", identity("tensor<2xf8E4M3B11FNUZ>"), identity("tensor<2xf8E5M2>")
    ),
    ("a tensor of f8E8M0FNU", "the same codes as ui8"): Broken(
        "ESPP047", "f8E8M0FNU", identity("tensor<2xf8E8M0FNU>"), identity("tensor<2xui8>")
    ),
    ("a tensor of f4E2M1FN", "two codes in a ui8"): Broken(
        "ESPP004", "f4E2M1FN", identity("tensor<2xf4E2M1FN>"), identity("tensor<2xui8>")
    ),
    ("a tensor of f64", "a tensor of f32"): Broken(
        "ESPP004", "makes f64", identity("tensor<2xf64>"), identity("tensor<2xf32>")
    ),
    ("a tensor of complex<f32>", "two f32 numbers for each"): Broken(
        "EVRF004", "complex<f32>", identity("tensor<2xcomplex<f32>>"), identity("tensor<2x2xf32>")
    ),
    ("a sort", "a negation"): Broken("EVRF029", "no such operation", sort("sort"), sort("negate")),
    ("a top-k of i32", "a top-k of f32"): Broken("EVRF013", "takes i32", top_k("i32"), top_k("f32")),
    ("a call of AwsNeuronTopK with i32", "one with bf16"): Broken(
        "EVRF013", "takes i32", custom_call("AwsNeuronTopK", "i32"), custom_call("AwsNeuronTopK", "bf16")
    ),
    ("a call of AwsNeuronTopQ", "a call of AwsNeuronTopK"): Broken(
        "EVRF015", "AwsNeuronTopQ", custom_call("AwsNeuronTopQ"), custom_call("AwsNeuronTopK")
    ),
    ("random bits by THREE_FRY", "random bits by DEFAULT"): Broken(
        "EVRF006", "THREE_FRY", random_bits("THREE_FRY"), random_bits("DEFAULT")
    ),
    ("a Cholesky decomposition", "a square root"): Broken(
        "EVRF001",
        "no such operation",
        unary("stablehlo.cholesky", "tensor<2x2xf32>"),
        unary("stablehlo.sqrt", "tensor<2x2xf32>"),
    ),
    ("an arithmetic right shift of i16", "a logical right shift of i16"): Broken(
        "EVRF022",
        "takes i16",
        binary("stablehlo.shift_right_arithmetic", "tensor<2xi16>"),
        binary("stablehlo.shift_right_logical", "tensor<2xi16>"),
    ),
    ("an arithmetic right shift of i8", "an arithmetic right shift of i32"): Broken(
        "EVRF022",
        "takes i8",
        binary("stablehlo.shift_right_arithmetic", "tensor<2xi8>"),
        binary("stablehlo.shift_right_arithmetic", "tensor<2xi32>"),
    ),
    ("a dot of i32", "a dot of i8"): Broken("EVRF035", "takes i32", dot("i32"), dot("i8")),
    ("a power of i64", "a power of i32"): Broken(
        "EVRF062",
        "takes i64",
        binary("stablehlo.power", "tensor<2xi64>"),
        binary("stablehlo.power", "tensor<2xi32>"),
    ),
    ("a ui64 splat of 4,294,967,296", "a ui64 splat of 7"): Broken(
        "ESFH002", "4294967296, which", constant("ui64", 2**32, 2**32), constant("ui64", 7, 7)
    ),
    ("an all-reduce of i32", "an all-reduce of f32"): Broken(
        "EVRF061", "takes i32", folded("all_reduce", "i32"), folded("all_reduce", "f32")
    ),
    ("a reduce-scatter of ui32", "a reduce-scatter of bf16"): Broken(
        "EVRF063", "takes ui32", folded("reduce_scatter", "ui32"), folded("reduce_scatter", "bf16")
    ),
    ("a convolution that dilates input and kernel", "one that dilates the kernel, with strides"): Broken(
        "EVRF010",
        "input and kernel",
        convolution(input_dilation=2, kernel_dilation=2),
        convolution(kernel_dilation=2, strides=2),
    ),
    ("a convolution of a dilated input with strides", "one of a dilated input without"): Broken(
        "EVRF011", "strides", convolution(strides=2, input_dilation=2), convolution(input_dilation=2)
    ),
    ("a window reduction of a dilated operand", "one of the operand itself"): Broken(
        "EVRF017", "its operand", window(base=2), window()
    ),
    ("a window reduction with a dilated window", "one with a dense window"): Broken(
        "EVRF018", "its window", window(dilation=2), window()
    ),
    ("a window reduction of 2 tensors", "one of 1 tensor"): Broken(
        "EVRF019", "2 tensors", window(tensors=2), window(tensors=1)
    ),
    ("a scatter to rows 0 to 4 of 4", "one to rows 0 to 3 of 4"): Broken(
        "EVRF031",
        "count to 4, and dimension 0 ends at 3",
        scatter("f32", overwrite("f32"), rows=4, counted=5),
        scatter("f32", overwrite("f32"), rows=4, counted=4),
    ),
    ("a gather of rows 0 to 4 of 4", "one of rows 0 to 3 of 4"): Broken(
        "EVRF056", "count to 4, and dimension 0 ends at 3", gather(4, 5), gather(4, 4)
    ),
    ("a gather of pairs beyond", "one of pairs within"): Broken(
        "EVRF056", "count to 4, and dimension 1 ends at 3", gather_of_pairs(4, 5), gather_of_pairs(5, 5)
    ),
    ("a scatter that takes the maximum of i32", "one that overwrites i32"): Broken(
        "EVRF060", "combines i32", scatter("i32", combine("i32")), scatter("i32", overwrite("i32"))
    ),
    ("a scatter that takes the maximum of i1", "one that takes the maximum of f32"): Broken(
        "EVRF016", "combines i1", scatter("i1", combine("i1")), scatter("f32", combine("f32"))
    ),
    ("an output of 5 GiB", "an output of 4 GiB"): Broken(
        "EVRF024",
        "output 0 has 5.00 GiB",
        unary("stablehlo.negate", f"tensor<5x{GIB}xf32>"),
        unary("stablehlo.negate", f"tensor<4x{GIB}xf32>"),
    ),
    ("inputs of 25 GiB on trn2", "inputs of 23 GiB on trn2"): Broken(
        "EVRF009",
        "take 25.00 GiB, and a logical core of trn2 has 24.00 GiB",
        main(f"%x: tensor<25x{GIB}xf32>", "%y = stablehlo.constant dense<1.0> : tensor<f32>", "tensor<f32>"),
        main(f"%x: tensor<23x{GIB}xf32>", "%y = stablehlo.constant dense<1.0> : tensor<f32>", "tensor<f32>"),
    ),
    ("27 GiB of values alive together on trn2", "21 GiB of values alive together on trn2"): Broken(
        "EOOM001",
        "take 27.00 GiB",
        main(
            f"%x: tensor<9x{GIB}xf32>",
            f"""%a = stablehlo.negate %x : tensor<9x{GIB}xf32>
            %b = stablehlo.negate %a : tensor<9x{GIB}xf32>
            %y = stablehlo.slice %b [0:1, 0:1] : (tensor<9x{GIB}xf32>) -> tensor<1x1xf32>""",
            "tensor<1x1xf32>",
        ),
        main(
            f"%x: tensor<7x{GIB}xf32>",
            f"""%a = stablehlo.negate %x : tensor<7x{GIB}xf32>
            %b = stablehlo.negate %a : tensor<7x{GIB}xf32>
            %c = stablehlo.negate %b : tensor<7x{GIB}xf32>
            %y = stablehlo.slice %c [0:1, 0:1] : (tensor<7x{GIB}xf32>) -> tensor<1x1xf32>""",
            "tensor<1x1xf32>",
        ),
    ),
    ("a read of an input after its update in place", "the read before the update"): Broken(
        "-", "reads input 0 after stablehlo.scatter", update_in_place(True), update_in_place(False)
    ),
}


@pytest.mark.parametrize("name", CASES, ids=": ".join)
def test_a_broken_rule_is_found_once(name):
    case = CASES[name]
    (finding,) = [one for one in check_module(case.breaks, case.target) if one.code == case.code]
    assert case.detail in finding.detail


@pytest.mark.parametrize("name", CASES, ids=": ".join)
def test_what_nearly_breaks_it_is_not_found(name):
    case = CASES[name]
    assert [one for one in check_module(case.nearly, case.target) if one.code == case.code] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}: {rule.breaks}")
def test_what_a_rule_says_breaks_it_does_and_what_nearly_does_does_not(rule):
    case = CASES[rule.breaks, rule.nearly]
    assert case.code == rule.code
    assert check_module(case.breaks, case.target, [rule]) != []
    assert check_module(case.nearly, case.target, [rule]) == []


def test_rules_are_about_their_targets():
    assert check_module(dot("i32"), "trn1") == []
    assert check_module(sort("sort"), "trn1") == []
    assert check_module(identity("tensor<2xf8E4M3FN>"), "trn3") == []
    with pytest.raises(ConfigError, match="unknown target 'trn9'"):
        check_module(dot("i32"), "trn9")


def test_an_output_in_the_memory_of_an_input_counts_once():
    type = f"tensor<4x{GIB}xf32>"
    arguments = ", ".join(f"%x{index}: {type} {{tf.aliasing_output = {index} : i32}}" for index in range(4))
    results, values = ", ".join([type] * 4), ", ".join(f"%x{index}" for index in range(4))
    text = f"func.func public @main({arguments}) -> ({results}) {{ return {values} : {results} }}"
    assert check_module(text, "trn2") == []
    (finding,) = check_module(text.replace("tf.aliasing_output", "tf.other"), "trn2")
    assert finding.code == "EVRF009"


def test_a_finding_says_code_operation_line_and_remedy():
    text = sort("sort").replace(
        ": (tensor<4xf32>) -> tensor<4xf32>", ': (tensor<4xf32>) -> tensor<4xf32> loc("model/moe.py":31:4)'
    )
    (finding,) = check_module(text, "trn2")
    assert finding.line == "model/moe.py:31"
    assert str(finding) == (
        "NCC_EVRF029: stablehlo.sort at model/moe.py:31: trn2 has no such operation; "
        "order by counting or by a TopK kernel"
    )


def test_equal_findings_of_a_line_are_counted():
    shift = 'stablehlo.shift_right_arithmetic %x, %x : tensor<2xi8> loc("model/a.py":7:0)'
    text = main("%x: tensor<2xi8>", f"%z = {shift}\n%y = {shift}", "tensor<2xi8>")
    (finding,) = check_module(text, "trn2")
    assert finding.count == 2
    assert "stablehlo.shift_right_arithmetic at model/a.py:7 (2 times): takes i8" in str(finding)


def test_a_type_is_found_where_it_comes_from():
    text = main(
        "%x: tensor<2xf32>",
        """%a = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xf64> loc("model/a.py":3:0)
        %b = stablehlo.negate %a : tensor<2xf64> loc("model/a.py":4:0)
        %y = stablehlo.convert %b : (tensor<2xf64>) -> tensor<2xf32> loc("model/a.py":5:0)""",
        "tensor<2xf32>",
    )
    assert [one.line for one in check_module(text, "trn2")] == ["model/a.py:3"]
