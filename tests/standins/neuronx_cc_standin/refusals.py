"""What the documentation says neuronx-cc refuses in a module, with the documented text.

Texts and conditions: AWS Neuron SDK documentation, "Neuron Compiler Error Codes"; that of NCC_EVRF029 from public
reports.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arguments import REINTERPRET_FP8, Arguments
from jaxlib.mlir import ir

RECOGNISED = {
    *(f"AwsNeuron{name}" for name in ("Erf", "Gelu", "GeluApprxTanh", "GeluBackward", "Silu", "SiluBackward")),
    *(f"AwsNeuron{name}" for name in ("RmsNorm", "Softmax", "SoftmaxBackward", "CollectiveMatmul", "IntMatmult")),
    *(f"AwsNeuron{name}" for name in ("ArgMax", "ArgMin", "TopK", "DropoutMaskV1", "CustomNativeKernel", "CustomOp")),
    *(f"AwsNeuron{name}" for name in ("DevicePrint", "LNCShardingConstraint", "TransferWithStaticRing")),
    *(f"AwsNeuronModuleMarker{where}-{way}" for where in ("Start", "End") for way in ("Forward", "Backward")),
    *("ResizeNearest", "ResizeBilinear", "ResizeNearestGrad", "NeuronBoundaryMarker-Start", "NeuronBoundaryMarker-End"),
    *("QuantizeMX", "__op$block_scaled_dot"),
}
NATIVE_FP8 = ("f8E4M3FN", "f8E4M3", "f8E5M2")


@dataclass(frozen=True)
class Instruction:
    """An operation, its opcode in HLO, and the types it takes and makes."""

    operation: Any
    opcode: str
    operands: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def elements(self) -> set[str]:
        """Element types."""
        found = (re.search(r"(?:x|<)([a-z]\w*(?:<\w+>)?)(?:, [^>]*)?>$", type) for type in self.operands + self.results)
        return {match[1] for match in found if match}

    def line(self, number: int) -> str:
        """The instruction as HLO would print it."""
        operands = ", ".join(f"%p{position}" for position in range(len(self.operands)))
        shapes = ", ".join(map(_hlo_shape, self.results))
        return f"%{self.opcode}.{number} = ({shapes}) {self.opcode}({operands})"


def find_refusal(module: ir.Module, arguments: Arguments) -> str:
    """The text for the first instruction that is refused; empty if the module can be compiled."""
    for number, instruction in enumerate(_instructions(module)):
        for code, rule in RULES.items():
            text = rule(instruction, arguments)
            if text:
                return f"[ERROR] [NCC_{code}] {text}\n{instruction.line(number)}"
    return ""


def _instructions(module: ir.Module) -> list[Instruction]:
    found: list[Instruction] = []

    def note(operation: Any) -> Any:
        taken = [str(value.type) for value in operation.operands]
        for region in operation.regions:
            taken += [str(argument.type) for block in region for argument in block.arguments]
        opcode = operation.name.rpartition(".")[2].replace("_", "-")
        made = tuple(str(value.type) for value in operation.results)
        found.append(Instruction(operation, opcode, tuple(taken), made))
        return ir.WalkResult.ADVANCE

    module.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def _dynamic(one: Instruction, arguments: Arguments) -> str:
    dynamic = [type for type in one.results if "?" in type]
    if not dynamic:
        return ""
    return (
        f"Dynamic shape is not supported: instruction '{one.opcode}' has shape '{_hlo_shape(dynamic[0])}'. The Neuron "
        "compiler requires all tensor dimensions to be statically sized."
    )


def _complex(one: Instruction, arguments: Arguments) -> str:
    found = any(element.startswith("complex") for element in one.elements)
    return "Complex data types are not supported on the Neuron device." if found else ""


def _e4m3fn(one: Instruction, arguments: Arguments) -> str:
    refused = arguments.target != "trn3" and REINTERPRET_FP8 not in arguments.tensorizer_options
    return "Data type F8E4M3FN is not supported on TRN1/TRN2." if refused and "f8E4M3FN" in one.elements else ""


def _mixed_fp8(one: Instruction, arguments: Arguments) -> str:
    mixed = arguments.target == "trn3" and REINTERPRET_FP8 in arguments.tensorizer_options
    return "Mixed use of the two mutually-exclusive types" if mixed and "f8E4M3FN" in one.elements else ""


def _other_fp8(one: Instruction, arguments: Arguments) -> str:
    found = [element for element in one.elements if element.startswith("f8") and element.endswith("FNUZ")]
    return f"Unsupported {found[0].upper()} data type." if found else ""


def _unknown_fp8(one: Instruction, arguments: Arguments) -> str:
    found = [element for element in one.elements if element.startswith("f8") and element not in NATIVE_FP8]
    return "The compiler found usage of an unsupported 8-bit floating-point data type." if found else ""


def _no_code(one: Instruction, arguments: Arguments) -> str:
    found = one.elements & {"f64", "f4E2M1FN"}
    return f"The compiler encountered a data type that is not supported for code generation: {found}" if found else ""


def _sort(one: Instruction, arguments: Arguments) -> str:
    if one.opcode != "sort" or arguments.target == "trn1":
        return ""
    return (
        f"Operation sort is not supported on {arguments.target}. Use supported equivalent operation like TopK or "
        "replace it with an alternate implementation via Neuron Kernel Interface (NKI)."
    )


def _top_k(one: Instruction, arguments: Arguments) -> str:
    is_top_k = one.opcode == "top-k" or (one.opcode == "custom-call" and _call_target(one) == "AwsNeuronTopK")
    is_integer = is_top_k and re.search(r"x?u?i\d+>$", one.operands[0])
    return "TopK does not support int32 or int64 input tensors." if is_integer else ""


def _custom_call(one: Instruction, arguments: Arguments) -> str:
    if one.opcode != "custom-call" or _call_target(one) in RECOGNISED:
        return ""
    return (
        "The compiler encountered a custom call instruction with a target name that is not recognized: "
        f"{_call_target(one)}"
    )


def _kernel_file(one: Instruction, arguments: Arguments) -> str:
    """Which part of a config names the file is not documented; public code has it as ``klir_binary.binary``."""
    if one.opcode != "custom-call" or _call_target(one) != "AwsNeuronCustomNativeKernel":
        return ""
    try:
        config = ir.StringAttr(one.operation.attributes["backend_config"]).value
        path = Path(json.loads(base64.b64decode(config, validate=True))["klir_binary"]["binary"])
    except (KeyError, TypeError, ValueError, binascii.Error):
        return "Kernel file '' referenced by AwsNeuronCustomNativeKernel instruction does not exist on the host."
    if path.is_file() or Path(path.parent.name, path.name).is_file():
        return ""
    return f"Kernel file '{path}' referenced by AwsNeuronCustomNativeKernel instruction does not exist on the host."


def _dot(one: Instruction, arguments: Arguments) -> str:
    refused = {"i64", "ui64"} if arguments.target == "trn1" else {"i32", "ui32", "i64", "ui64"}
    if one.opcode not in ("dot", "dot-general") or not refused & one.elements:
        return ""
    return "Opcode (dot) does not support 32-bit or 64-bit integer operands on this target."


def _scatter(one: Instruction, arguments: Arguments) -> str:
    if one.opcode != "scatter" or not re.search(r"x?u?i\d+>$", one.results[0]) or not _computes(one.operation):
        return ""
    return (
        "Scatter does not support integer operands on this target; they are converted to f32, which loses precision "
        "for values larger than 2^24."
    )


def _shift(one: Instruction, arguments: Arguments) -> str:
    if one.opcode != "shift-right-arithmetic" or one.elements <= {"i32", "ui32"}:
        return ""
    return (
        "Shift-right-arithmetic operation on non 32-bit inputs is not supported. Cast the first argument's data type "
        "to be S32, U32, or F32."
    )


def _random(one: Instruction, arguments: Arguments) -> str:
    if one.opcode != "rng-bit-generator" or "DEFAULT" in str(one.operation.attributes["rng_algorithm"]):
        return ""
    return (
        "The compiler encountered a RNGBitGenerator operation using a random number generation algorithm other than "
        "RNG_DEFAULT."
    )


RULES: dict[str, Callable[[Instruction, Arguments], str]] = {
    "EMOD025": _dynamic,
    "EVRF004": _complex,
    "EVRF051": _e4m3fn,
    "EOCP001": _mixed_fp8,
    "EVRF005": _other_fp8,
    "ESPP047": _unknown_fp8,
    "ESPP004": _no_code,
    "EVRF029": _sort,
    "EVRF013": _top_k,
    "EHCA005": _custom_call,
    "EVRF059": _kernel_file,
    "EVRF035": _dot,
    "EVRF060": _scatter,
    "EVRF022": _shift,
    "EVRF006": _random,
}


def _call_target(one: Instruction) -> str:
    return ir.StringAttr(one.operation.attributes["call_target_name"]).value


def _computes(scatter: Any) -> bool:
    """Whether a scatter's body does more than return the update."""
    return len(scatter.regions[0].blocks[0].operations) > 1


def _hlo_shape(type: str) -> str:
    """``tensor<2x?xf32>`` as ``f32[2,?]``."""
    *sizes, element = re.sub(r"^tensor<|>$", "", type.partition(", #")[0]).split("x")
    return f"{element}[{','.join(sizes)}]"
