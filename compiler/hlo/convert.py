"""A module in the formats that compilers read: an HLO proto, StableHLO bytecode with aliases, a portable artifact."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...settings import ModuleFormat
from ..lowering.context import shared_context
from ..lowering.lower import LoweredModule
from .patch import TensorNames, patch_module

_OFFER = "tf.aliasing_output"
"""Attribute of an argument whose memory an output may take."""


def default_names(module: LoweredModule) -> TensorNames:
    """``input0``, ``input1``, ... and ``output0``, ...: the names that the compiler gives by itself."""
    return _numbered_names(len(module.inputs), len(module.outputs))


def write_module(module: LoweredModule, format: ModuleFormat, names: TensorNames | None = None) -> bytes:
    """The bytes of ``module`` in ``format``; StableHLO bytecode has no names for tensors.

    Raises:
        LoweringError: XLA cannot convert the module, or names and tensors are not equally many.
    """
    return hlo_proto(module, names or default_names(module)) if format == "hlo" else aliased_bytecode(module)


def write_bytecode(bytecode: bytes, format: ModuleFormat) -> bytes:
    """As ``write_module``, of StableHLO bytecode alone: counts and aliases are those of its entry function.

    Raises:
        LoweringError: XLA cannot convert the module.
    """
    with shared_context():
        parsed = ir.Module.parse(bytecode)
        main: Any = ir.SymbolTable(parsed.operation)["main"]
        inputs, outputs = len(main.type.inputs), len(main.type.results)
        aliases = _offered_aliases(main)
    if format == "hlo":
        return _patched_proto(bytecode, _numbered_names(inputs, outputs))
    return _aliased(bytecode, aliases, outputs)


def portable_artifact(bytecode: bytes) -> bytes:
    """A StableHLO portable artifact, which older versions of StableHLO read too.

    Raises:
        LoweringError: the module has operations of dialects that such artifacts have no form for.
    """
    oldest = stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_12)
    with shared_context():
        try:
            return stablehlo.serialize_portable_artifact(ir.Module.parse(bytecode), oldest)
        except ValueError as error:
            raise LoweringError(f"the module cannot be written as a portable artifact: {error}") from error


def hlo_proto(module: LoweredModule, names: TensorNames) -> bytes:
    """An HLO module proto.

    Composites are calls of their bodies with the operator's name in the frontend attributes; custom calls stay.
    The root is a tuple, or with one result the result itself, and aliases say so. See ``patch.py`` for the rest.

    Raises:
        LoweringError: XLA cannot convert the module, or names and tensors are not equally many.
    """
    if (len(names.inputs), len(names.outputs)) != (len(module.inputs), len(module.outputs)) or module.runtime_zero:
        raise LoweringError(
            f"{len(names.inputs)} input and {len(names.outputs)} output names for a module of {len(module.inputs)} "
            f"inputs and {len(module.outputs)} outputs: give each tensor one, and lower with numerics 'fast'"
        )
    return _patched_proto(module.bytecode, names)


def aliased_bytecode(module: LoweredModule) -> bytes:
    """StableHLO bytecode whose aliases are the module's own attribute, obligatory, instead of offers of arguments."""
    return _aliased(module.bytecode, module.aliases, len(module.outputs))


def _numbered_names(inputs: int, outputs: int) -> TensorNames:
    return TensorNames([f"input{index}" for index in range(inputs)], [f"output{index}" for index in range(outputs)])


def _patched_proto(bytecode: bytes, names: TensorNames) -> bytes:
    try:
        computation = _jax.mlir.mlir_module_to_xla_computation(
            bytecode, use_tuple_args=False, return_tuple=len(names.outputs) > 1
        )
        proto = computation.as_serialized_hlo_module_proto()
    except (RuntimeError, ValueError) as error:
        raise LoweringError(f"XLA cannot write the module as HLO: {error}") from error
    return patch_module(proto, names)


def _aliased(bytecode: bytes, aliases: Mapping[int, int], outputs: int) -> bytes:
    with shared_context():
        parsed = ir.Module.parse(bytecode)
        main = ir.SymbolTable(parsed.operation)["main"]
        kept = [{name: value for name, value in one.items() if name != _OFFER} for one in _argument_attributes(main)]
        main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in kept])
        if aliases:
            attribute = ir.Attribute.parse(_alias_text(aliases, outputs))
            parsed.operation.attributes["mhlo.input_output_alias"] = attribute
        buffer = io.BytesIO()
        parsed.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _offered_aliases(main: Any) -> dict[int, int]:
    """Output index -> index of the argument that offers its memory."""
    offers = ((index, one.get(_OFFER)) for index, one in enumerate(_argument_attributes(main)))
    return {ir.IntegerAttr(output).value: index for index, output in offers if output is not None}


def _argument_attributes(main: Any) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument of a function."""
    if "arg_attrs" not in main.attributes:
        return [{} for _ in main.type.inputs]
    return [{one.name: one.attr for one in ir.DictAttr(each)} for each in ir.ArrayAttr(main.attributes["arg_attrs"])]


def _alias_text(aliases: Mapping[int, int], outputs: int) -> str:
    """The attribute in the form that XLA reads; the index of a single result is empty."""
    entries = [
        '{alias = {kind = "must_alias", parameter_index = array<i64>, '
        f"parameter_number = {source} : i64}}, output_index = array<i64{f': {output}' if outputs > 1 else ''}>}}"
        for output, source in sorted(aliases.items())
    ]
    return f"[{', '.join(entries)}]"
