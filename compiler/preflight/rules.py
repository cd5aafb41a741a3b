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
    Rule("EMOD025", "documented", dynamic_shapes, "pad it to a fixed size"),
    Rule("ESFH002", "documented", large_constants, "use 32-bit constants"),
    Rule("-", "reported", wide_integers, "narrow it to int32: aws-neuron-sdk#937 read wrong rows"),
    Rule("EVRF051", "documented", has_element(lambda e: e == "f8E4M3FN"), _CODES, ("trn1", "trn2")),
    Rule("EVRF005", "documented", has_element(re.compile(r"f8E\dM\d(FNUZ|B11FNUZ)$").match), _CODES),
    Rule("ESPP047", "inferred", has_element(lambda e: e == "f8E8M0FNU"), _CODES),
    Rule("ESPP004", "documented", has_element(re.compile(r"f[46]E").match), "keep codes in uint8"),
    Rule("ESPP004", "inferred", has_element(lambda e: e == "f64"), "compute in float32"),
    Rule("EVRF004", "documented", has_element(lambda e: e.startswith("complex")), "use two real tensors"),
)

OPERATORS = (
    Rule("EVRF029", "reported", is_used("stablehlo.sort"), "order by counting or by a TopK kernel", ("trn2", "trn3")),
    Rule("EVRF013", "documented", integer_top_k, "convert to float32 first"),
    Rule("EVRF015", "documented", unknown_custom_calls, "call a documented kernel, or lower its composite"),
    Rule("EVRF006", "documented", random_algorithms, "draw random numbers on the host"),
    Rule(
        "EVRF001",
        "documented",
        is_used("stablehlo.triangular_solve", "stablehlo.cholesky", "stablehlo.fft"),
        _OTHERS,
    ),
    Rule("EVRF022", "documented", takes_element(_is_narrow_shift, "stablehlo.shift_right_arithmetic"), "shift int32"),
    Rule("EVRF035", "documented", integer_dots, _FLOATS),
    Rule("EVRF062", "documented", takes_element(lambda e: e in ("i64", "ui64"), "stablehlo.power"), "use int32"),
    Rule("EVRF061", "documented", takes_element(is_wide_integer, "stablehlo.all_reduce"), _FLOATS),
    Rule("EVRF063", "documented", takes_element(is_wide_integer, "stablehlo.reduce_scatter"), _FLOATS),
)

WINDOWS = (
    Rule("EVRF010", "documented", two_dilations, "dilate one of the two"),
    Rule("EVRF011", "documented", strided_dilation, "leave out strides or dilation"),
    Rule("EVRF017", "documented", dilated_base, "pad the operand first"),
    Rule("EVRF018", "documented", dilated_window, "reduce slices instead"),
    Rule("EVRF019", "documented", several_operands, "reduce each tensor alone"),
)

INDEXING = (
    Rule("EVRF031", "documented", scatters_beyond, "scatter within the operand"),
    Rule("EVRF056", "documented", gathers_beyond, "make the table as long as the positions"),
    Rule("EVRF060", "documented", integer_scatters, _FLOATS),
    Rule("EVRF016", "documented", narrow_integer_scatters, _FLOATS),
)

MEMORY = (
    Rule("EVRF024", "documented", large_outputs, _SMALLER),
    Rule("EVRF009", "documented", inputs_and_outputs, _SMALLER),
    Rule("EOOM001", "documented", peak, _SMALLER),
)

ALIASES = (
    Rule("-", "reported", reads_after_writes, "read before the update, or read the new value: optimum-neuron#754"),
)

RULES: tuple[Rule, ...] = (*TYPES, *OPERATORS, *WINDOWS, *INDEXING, *MEMORY, *ALIASES)
