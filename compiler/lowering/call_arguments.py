"""The arguments of an operator's call by the names of its schema, and as attributes of a composite."""

from __future__ import annotations

from typing import Any

import torch
from jaxlib.mlir import ir
from torch import fx
from torch._ops import OpOverload

from ...errors import LoweringError

OVERLOAD, OPERANDS = "torch.overload", "torch.operands"
"""Attributes besides the scalars'; no argument of a schema can have a dot in its name."""

_NAMED_OBJECTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def is_custom(operator: Any) -> bool:
    """True for operators defined outside PyTorch: these stay visible as composites."""
    return isinstance(operator, OpOverload) and operator.namespace not in ("aten", "prims", "prim")


def named_arguments(node: fx.Node) -> dict[str, Any]:
    """Every argument of a call in the order of the operator's schema, defaults filled in; tensors as nodes."""
    schema = node.target._schema  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
    given = {
        **dict(zip((one.name for one in schema.arguments), node.args, strict=False)),
        **node.kwargs,
    }
    return {one.name: given.get(one.name, one.default_value) for one in schema.arguments}


def composite_attributes(node: fx.Node) -> dict[str, ir.Attribute]:
    """What a composite says about a call besides its operands.

    A scalar has its schema name and is f64, i64, i1, a string (dtypes too), or an array of these; None is left out.
    ``torch.operands`` maps each tensor argument to the number of its operand, a list of tensors to theirs.

    Raises:
        LoweringError: an argument of another type.
    """
    operator: OpOverload = node.target  # pyright: ignore[reportAssignmentType]
    positions = {source: index for index, source in enumerate(node.all_input_nodes)}
    types = {one.name: str(one.type) for one in operator._schema.arguments}
    operands: dict[str, ir.Attribute] = {}
    attributes: dict[str, ir.Attribute] = {OVERLOAD: ir.StringAttr.get(operator._overloadname)}
    for name, value in named_arguments(node).items():
        if value is None:
            continue
        if isinstance(value, fx.Node):
            operands[name] = _integer(positions[value])
        elif _is_tensor_list(value):
            operands[name] = ir.ArrayAttr.get([_integer(positions[one]) for one in value if one is not None])
        else:
            attributes[name] = _attribute(name, value, is_float="float" in types[name])
    return {**attributes, OPERANDS: ir.DictAttr.get(operands)}


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(one, fx.Node) for one in value)


def _attribute(name: str, value: Any, is_float: bool) -> ir.Attribute:
    """``is_float``: the schema wants floats, which Python may write as ints.

    Lists are arrays of attributes: portable artifacts have no form for MLIR's dense arrays.
    """
    if isinstance(value, (list, tuple)):
        return ir.ArrayAttr.get([_attribute(name, one, is_float) for one in value])
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, float) or (isinstance(value, int) and is_float):
        return ir.FloatAttr.get_f64(float(value))
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, _NAMED_OBJECTS):
        return ir.StringAttr.get(str(value).removeprefix("torch."))
    raise LoweringError(
        f"argument {name}={value!r} is no attribute: give numbers, booleans, strings, dtypes or lists of them"
    )


def _integer(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
