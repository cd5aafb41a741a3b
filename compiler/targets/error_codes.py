"""What the error codes of neuronx-cc mean, and what to do about them here.

Documented codes: AWS Neuron SDK documentation, "Neuron Compiler Error Codes". Others were seen in public reports, and
what they mean is read off their messages. Rules for numbers that no page lists: the first letter of a category says
whose mistake it is, E the caller's and I the compiler's; numbers 901 and 902 are those of a pass that failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["refusal", "internal error", "resource"]

BISECT = "find the operators that cause it with `deepinfer-neuron bisect`"

_SMALLER = "compile fewer requests (--batch-sizes) or fewer KV blocks, or cut the step with --mode regions"
_REGIONS = "cut the step into smaller programs with --mode regions"
_MX = "leave MX kernels to trn3 and check the call's operands and backend_config"
_INTEGERS = "compute in float32 where values stay below 2^24, or with comparisons and sums of int32"
_NO_FLOAT8 = "keep float8 values in uint8 and decode them by a cast: passes/carry_float8_as_uint8.py does for inputs"
_KERNEL = "check the NKI kernel that the step calls"
_STATIC = "write the model with static shapes: padded rows, no nonzero, no item()"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One code.

    Attributes:
        name: category and number without ``NCC_``, such as ``EVRF029``; of an envelope ``F137``.
        kind: whether the compiler refuses the module, fails on it itself, or lacks memory or room.
        meaning: what went wrong.
        remedy: what to do next in this project's terms.
        is_documented: whether a page of the documentation has it.
    """

    name: str
    kind: Kind
    meaning: str
    remedy: str
    is_documented: bool = True


DOCUMENTED: tuple[ErrorCode, ...] = (
    ErrorCode("EARG001", "refusal", "the target has no logical cores of that many physical cores", "set --lnc=1"),
    ErrorCode("EBIR023", "refusal", "an MLP kernel has more than 4096 intermediate values", "split the expert width"),
    ErrorCode("EBVF030", "resource", "more instructions than a program may have", _REGIONS),
    ErrorCode("EHCA005", "refusal", "a custom call with a target the compiler does not know", _KERNEL),
    ErrorCode("EMOD025", "refusal", "a tensor's shape is dynamic", _STATIC),
    ErrorCode("EOOM001", "resource", "tensors and scratch memory exceed the device memory of a core", _SMALLER),
    ErrorCode("EOOM002", "resource", "tensors exceed the device memory of a core", _SMALLER),
    ErrorCode("ESFH002", "refusal", "an unsigned 64-bit constant does not fit 32 bits", "use 32-bit constants"),
    ErrorCode("ESPP004", "refusal", "no code can be generated for a dtype, such as float4_e2m1fn", _NO_FLOAT8),
    ErrorCode("ESPP047", "refusal", "an 8-bit floating-point dtype the target does not have", _NO_FLOAT8),
    ErrorCode("EUOC002", "refusal", "an operator the target does not have", "write it with other operators"),
    ErrorCode("EVRF001", "refusal", "an operator the target does not have", "write it with other operators"),
    ErrorCode("EVRF004", "refusal", "complex numbers", "write real and imaginary parts as two tensors"),
    ErrorCode("EVRF005", "refusal", "a float8 dtype of the FNUZ or B11 kind", _NO_FLOAT8),
    ErrorCode("EVRF006", "refusal", "a random number algorithm other than the default", "draw numbers on the host"),
    ErrorCode("EVRF007", "resource", "more instructions than a program may have", _REGIONS),
    ErrorCode("EVRF009", "resource", "inputs and outputs exceed the device memory of a core", _SMALLER),
    ErrorCode("EVRF010", "refusal", "input and kernel of a convolution are dilated", "dilate one of the two"),
    ErrorCode("EVRF011", "refusal", "a strided convolution has a dilated input", "split it into two convolutions"),
    ErrorCode("EVRF013", "refusal", "TopK of integers", "take the top of float32 values"),
    ErrorCode("EVRF015", "refusal", "a custom call with a target the compiler does not know", _KERNEL),
    ErrorCode("EVRF016", "refusal", "a scatter that reduces integers or booleans", _INTEGERS),
    ErrorCode("EVRF017", "refusal", "a window reduction with a dilated base", "dilate by a gather first"),
    ErrorCode("EVRF018", "refusal", "a window reduction with a dilated window", "dilate by a gather first"),
    ErrorCode("EVRF019", "refusal", "a window reduction of several operands", "reduce each operand alone"),
    ErrorCode("EVRF022", "refusal", "an arithmetic right shift of other than 32 bits", "shift int32"),
    ErrorCode("EVRF024", "resource", "an output of more than 4 GB", _SMALLER),
    ErrorCode("EVRF031", "refusal", "a scatter's counted indices leave its operand", "scatter within the buffer"),
    ErrorCode("EVRF035", "refusal", "a product of integer matrices", _INTEGERS),
    ErrorCode("EVRF036", "refusal", "QuantizeMX: backend_config is no JSON", _MX),
    ErrorCode("EVRF037", "refusal", "QuantizeMX: takes one operand", _MX),
    ErrorCode("EVRF038", "refusal", "QuantizeMX: only the last two dimensions can be quantised", _MX),
    ErrorCode("EVRF039", "refusal", "QuantizeMX: blocks have 32 values", _MX),
    ErrorCode("EVRF040", "refusal", "QuantizeMX: EMAX is the only scale method", _MX),
    ErrorCode("EVRF041", "refusal", "QuantizeMX: takes bfloat16 or float16", _MX),
    ErrorCode("EVRF042", "refusal", "QuantizeMX: the packed output is no uint32 of the right shape", _MX),
    ErrorCode("EVRF043", "refusal", "ScaledMatmul: takes two matrices and two scales", _MX),
    ErrorCode("EVRF044", "refusal", "ScaledMatmul: the left matrix is not packed by QuantizeMX", _MX),
    ErrorCode("EVRF045", "refusal", "ScaledMatmul: returns float32 or bfloat16", _MX),
    ErrorCode("EVRF046", "refusal", "ScaledMatmul: the left matrix has less than two dimensions", _MX),
    ErrorCode("EVRF047", "refusal", "ScaledMatmul: the right matrix has less than two dimensions", _MX),
    ErrorCode("EVRF048", "refusal", "ScaledMatmul: batch dimensions differ", _MX),
    ErrorCode("EVRF049", "refusal", "ScaledMatmul: backend_config is no JSON of whole numbers", _MX),
    ErrorCode("EVRF050", "refusal", "ScaledMatmul: contracting dimensions differ", _MX),
    ErrorCode("EVRF051", "refusal", "float8_e4m3fn, which trn1 and trn2 do not have", _NO_FLOAT8),
    ErrorCode("EVRF052", "refusal", "float8_e4m3, which targets after trn3 do not have", _NO_FLOAT8),
    ErrorCode("EVRF053", "refusal", "ScaledMatmul: a contracting dimension is a batch dimension too", _MX),
    ErrorCode("EVRF054", "refusal", "ScaledMatmul: no such batch dimension", _MX),
    ErrorCode("EVRF055", "refusal", "ScaledMatmul: no such contracting dimension", _MX),
    ErrorCode("EVRF056", "refusal", "a gather's counted indices leave its operand", "make the table long enough"),
    ErrorCode("EVRF057", "refusal", "QuantizeMX: returns two tensors", _MX),
    ErrorCode("EVRF058", "refusal", "QuantizeMX: the quantised dimension is no multiple of 4", _MX),
    ErrorCode("EVRF059", "refusal", "the file of an NKI kernel does not exist", "trace the kernel again"),
    ErrorCode("EVRF060", "refusal", "a scatter that computes with integers", _INTEGERS),
    ErrorCode("EVRF061", "refusal", "an all-reduce of integers", _INTEGERS),
    ErrorCode("EVRF062", "refusal", "a power of 64-bit integers", "compute it in int32 or float32"),
    ErrorCode("EVRF063", "refusal", "a reduce-scatter of integers", _INTEGERS),
    ErrorCode("EVRF064", "refusal", "an instruction whose shapes contradict XLA's rules", BISECT),
    ErrorCode("EVRF065", "refusal", "an NKI kernel traced by a version the compiler does not take", "trace it again"),
    ErrorCode("EVRF066", "refusal", "an NKI kernel for logical cores of another size", "trace it for this --lnc"),
    ErrorCode("EXSP001", "resource", "tensors and scratch memory exceed the device memory of a core", _SMALLER),
    ErrorCode("EXTP004", "resource", "more instructions than a program may have", _REGIONS),
)

_SEEN: tuple[tuple[str, Kind, str, str], ...] = (
    ("EVRF029", "refusal", "sort, which the target does not have", "choose by comparisons or a TopK kernel"),
    ("EOCP001", "refusal", "both kinds of float8_e4m3 in one module", _NO_FLOAT8),
    ("ETUP002", "refusal", "a custom call that returns a tuple", _KERNEL),
    ("DVR002", "internal error", "a transformation failed", BISECT),
    ("IBIR243", "internal error", "an instruction reads outside its tensor", BISECT),
    ("IBIR297", "internal error", "operands of an instruction start at different partitions", BISECT),
    ("INKI016", "internal error", "an assertion of an NKI kernel", _KERNEL),
    ("MFP002", "internal error", "modules failed to compile, the cause is named after them", BISECT),
    ("F134", "internal error", "the compiler aborted", BISECT),
    (
        "F137",
        "resource",
        "the compiler was killed, which mostly means that this machine has too little memory",
        _REGIONS,
    ),
    ("F139", "internal error", "the compiler read invalid memory", BISECT),
)
CODES = {code.name: code for code in (*DOCUMENTED, *(ErrorCode(*row, is_documented=False) for row in _SEEN))}
"""All codes with a row, by name."""

_CATEGORY = re.compile(r"[A-Z]+")


def find_code(name: str) -> ErrorCode:
    """The row of a code, or what its letters say of one without a row."""
    if name in CODES:
        return CODES[name]
    category = (_CATEGORY.match(name) or [""])[0]
    if category.startswith("E") and len(category) == 4:
        meaning = f"the compiler's part {category[1:]} refuses the module"
        return ErrorCode(name, "refusal", meaning, f"change what the message names, or {BISECT}", is_documented=False)
    part = category[1:] if category.startswith("I") and len(category) == 4 else category
    what = "a pass failed" if name.endswith(("901", "902")) else "an internal error"
    return ErrorCode(name, "internal error", f"{what} in the compiler's part {part}", BISECT, is_documented=False)
