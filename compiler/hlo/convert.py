"""A lowered module in the two formats that neuronx-cc reads: an HLO module proto, or StableHLO bytecode."""

from __future__ import annotations

import io
from collections.abc import Mapping

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir

from ...errors import LoweringError
from ...settings import ModuleFormat
from ..lowering.context import shared_context
from ..lowering.lower import LoweredModule
from .patch import TensorNames, patch_module


def default_names(module: LoweredModule) -> TensorNames:
    """``input0``, ``input1``, ... and ``output0``, ...: the names that the compiler gives by itself."""
    inputs = tuple(f"input{index}" for index in range(len(module.inputs)))
    return TensorNames(inputs, tuple(f"output{index}" for index in range(len(module.outputs))))


def write_module(module: LoweredModule, format: ModuleFormat, names: TensorNames | None = None) -> bytes:
    """The bytes of ``module`` in ``format``; StableHLO bytecode has no names for tensors.

    Raises:
        LoweringError: XLA cannot convert the module, or names and tensors are not equally many.
    """
    return hlo_proto(module, names or default_names(module)) if format == "hlo" else aliased_bytecode(module)


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
    try:
        computation = _jax.mlir.mlir_module_to_xla_computation(
            module.bytecode, use_tuple_args=False, return_tuple=len(module.outputs) > 1
        )
        proto = computation.as_serialized_hlo_module_proto()
    except (RuntimeError, ValueError) as error:
        raise LoweringError(f"XLA cannot write the module as HLO: {error}") from error
    return patch_module(proto, names)


def aliased_bytecode(module: LoweredModule) -> bytes:
    """StableHLO bytecode whose aliases are the module's own attribute, obligatory, instead of offers of arguments."""
    with shared_context():
        parsed = ir.Module.parse(module.bytecode)
        main = ir.SymbolTable(parsed.operation)["main"]
        main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({})] * len(module.inputs))
        if module.aliases:
            attribute = ir.Attribute.parse(_alias_text(module.aliases, len(module.outputs)))
            parsed.operation.attributes["mhlo.input_output_alias"] = attribute
        buffer = io.BytesIO()
        parsed.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _alias_text(aliases: Mapping[int, int], outputs: int) -> str:
    """The attribute in the form that XLA reads; the index of a single result is empty."""
    entries = [
        '{alias = {kind = "must_alias", parameter_index = array<i64>, '
        f"parameter_number = {source} : i64}}, output_index = array<i64{f': {output}' if outputs > 1 else ''}>}}"
        for output, source in sorted(aliases.items())
    ]
    return f"[{', '.join(entries)}]"
