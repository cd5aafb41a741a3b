"""Every rule, by family.

Sources: AWS Neuron SDK documentation, "Neuron Compiler Error Codes", whose codes the rules carry; reports on
aws-neuron-sdk for what it does not list. What only a running compiler knows has no rule: the number of instructions
(EBVF030, EVRF007, EXTP004), files of kernels (EVRF059, EVRF065, EVRF066) and operands of MX kernels (EVRF036 to
EVRF050, EVRF053 to EVRF058).
"""

from __future__ import annotations

import re

from .aliases import reads_after_writes
from .element_types import dynamic_shapes, has_element, large_constants, wide_integers
from .indexing import gathers_beyond, integer_scatters, narrow_integer_scatters, scatters_beyond
from .memory import inputs_and_outputs, large_outputs, peak
from .module_view import is_wide_integer
from .operators import integer_dots, integer_top_k, is_used, random_algorithms, takes_element, unknown_custom_calls
from .rule import Rule
from .windows import dilated_base, dilated_window, several_operands, strided_dilation, two_dilations

_CODES = "keep float8 values in uint8 and decode them by a cast"
_FLOATS = "compute in float32 where values stay below 2^24"
_SMALLER = "compile fewer requests or fewer KV blocks, or cut the step into regions"
_OTHERS = "write it with other operators"


def _is_narrow_shift(element: str) -> bool:
    return element not in ("i32", "ui32")


TYPES = (
    Rule("EMOD025", "documented", "a tensor of ? rows", "a tensor of 2 rows", dynamic_shapes, "pad it to a fixed size"),
    Rule(
        "ESFH002",
        "documented",
        "the ui64 constant 5,000,000,000",
        "the ui64 constant 4,294,967,295",
        large_constants,
        "use 32-bit constants",
    ),
    Rule(
        "-",
        "reported",
        "an i64 tensor",
        "an i32 tensor",
        wide_integers,
        "narrow it to int32: aws-neuron-sdk#937 read wrong rows",
    ),
    Rule(
        "EVRF051",
        "documented",
        "a tensor of f8E4M3FN",
        "a tensor of f8E4M3",
        has_element(lambda e: e == "f8E4M3FN"),
        _CODES,
        ("trn1", "trn2"),
    ),
    Rule(
        "EVRF005",
        "documented",
        "a tensor of f8E4M3FNUZ",
        "a tensor of f8E4M3FN on trn3",
        has_element(re.compile(r"f8E\dM\d(FNUZ|B11FNUZ)$").match),
        _CODES,
    ),
    Rule(
        "ESPP047",
        "inferred",
        "a tensor of f8E8M0FNU",
        "the same codes as ui8",
        has_element(lambda e: e == "f8E8M0FNU"),
        _CODES,
    ),
    Rule(
        "ESPP004",
        "documented",
        "a tensor of f4E2M1FN",
        "two codes in a ui8",
        has_element(re.compile(r"f[46]E").match),
        "keep codes in uint8",
    ),
    Rule(
        "ESPP004",
        "inferred",
        "a tensor of f64",
        "a tensor of f32",
        has_element(lambda e: e == "f64"),
        "compute in float32",
    ),
    Rule(
        "EVRF004",
        "documented",
        "a tensor of complex<f32>",
        "two f32 numbers for each",
        has_element(lambda e: e.startswith("complex")),
        "use two real tensors",
    ),
)

OPERATORS = (
    Rule(
        "EVRF029",
        "reported",
        "a sort",
        "a negation",
        is_used("stablehlo.sort"),
        "order by counting or by a TopK kernel",
        ("trn2", "trn3"),
    ),
    Rule("EVRF013", "documented", "a top-k of i32", "a top-k of f32", integer_top_k, "convert to float32 first"),
    Rule(
        "EVRF015",
        "documented",
        "a call of AwsNeuronTopQ",
        "a call of AwsNeuronTopK",
        unknown_custom_calls,
        "call a documented kernel, or lower its composite",
    ),
    Rule(
        "EVRF006",
        "documented",
        "random bits by THREE_FRY",
        "random bits by DEFAULT",
        random_algorithms,
        "draw random numbers on the host",
    ),
    Rule(
        "EVRF001",
        "documented",
        "a Cholesky decomposition",
        "a square root",
        is_used("stablehlo.triangular_solve", "stablehlo.cholesky", "stablehlo.fft"),
        _OTHERS,
    ),
    Rule(
        "EVRF022",
        "documented",
        "an arithmetic right shift of i16",
        "a logical right shift of i16",
        takes_element(_is_narrow_shift, "stablehlo.shift_right_arithmetic"),
        "shift int32",
    ),
    Rule("EVRF035", "documented", "a dot of i32", "a dot of i8", integer_dots, _FLOATS),
    Rule(
        "EVRF062",
        "documented",
        "a power of i64",
        "a power of i32",
        takes_element(lambda e: e in ("i64", "ui64"), "stablehlo.power"),
        "use int32",
    ),
    Rule(
        "EVRF061",
        "documented",
        "an all-reduce of i32",
        "an all-reduce of f32",
        takes_element(is_wide_integer, "stablehlo.all_reduce"),
        _FLOATS,
    ),
    Rule(
        "EVRF063",
        "documented",
        "a reduce-scatter of ui32",
        "a reduce-scatter of bf16",
        takes_element(is_wide_integer, "stablehlo.reduce_scatter"),
        _FLOATS,
    ),
)

WINDOWS = (
    Rule(
        "EVRF010",
        "documented",
        "a convolution that dilates input and kernel",
        "one that dilates the kernel, with strides",
        two_dilations,
        "dilate one of the two",
    ),
    Rule(
        "EVRF011",
        "documented",
        "a convolution of a dilated input with strides",
        "one of a dilated input without",
        strided_dilation,
        "leave out strides or dilation",
    ),
    Rule(
        "EVRF017",
        "documented",
        "a window reduction of a dilated operand",
        "one of the operand itself",
        dilated_base,
        "pad the operand first",
    ),
    Rule(
        "EVRF018",
        "documented",
        "a window reduction with a dilated window",
        "one with a dense window",
        dilated_window,
        "reduce slices instead",
    ),
    Rule(
        "EVRF019",
        "documented",
        "a window reduction of 2 tensors",
        "one of 1 tensor",
        several_operands,
        "reduce each tensor alone",
    ),
)

INDEXING = (
    Rule(
        "EVRF031",
        "documented",
        "a scatter to rows 0 to 4 of 4",
        "one to rows 0 to 3 of 4",
        scatters_beyond,
        "scatter within the operand",
    ),
    Rule(
        "EVRF056",
        "documented",
        "a gather of rows 0 to 4 of 4",
        "one of rows 0 to 3 of 4",
        gathers_beyond,
        "make the table as long as the positions",
    ),
    Rule(
        "EVRF060",
        "documented",
        "a scatter that takes the maximum of i32",
        "one that overwrites i32",
        integer_scatters,
        _FLOATS,
    ),
    Rule(
        "EVRF016",
        "documented",
        "a scatter that takes the maximum of i1",
        "one that takes the maximum of f32",
        narrow_integer_scatters,
        _FLOATS,
    ),
)

MEMORY = (
    Rule("EVRF024", "documented", "an output of 5 GiB", "an output of 4 GiB", large_outputs, _SMALLER),
    Rule("EVRF009", "documented", "inputs of 25 GiB on trn2", "inputs of 23 GiB on trn2", inputs_and_outputs, _SMALLER),
    Rule(
        "EOOM001",
        "documented",
        "27 GiB of values alive together on trn2",
        "21 GiB of values alive together on trn2",
        peak,
        _SMALLER,
    ),
)

ALIASES = (
    Rule(
        "-",
        "reported",
        "a read of an input after its update in place",
        "the read before the update",
        reads_after_writes,
        "read before the update, or read the new value: optimum-neuron#754",
    ),
)

RULES: tuple[Rule, ...] = (*TYPES, *OPERATORS, *WINDOWS, *INDEXING, *MEMORY, *ALIASES)
