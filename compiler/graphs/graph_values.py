"""What stands in FX nodes, as JSON and back: arguments, types of values, constant tensors, names of operators.

Nothing that is read is executed: a name is looked up among the dtypes, the operators that are registered in this
process, and a few functions that are listed here.
"""

from __future__ import annotations

import base64
import binascii
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload, OpOverloadPacket, _OpNamespace

from ...errors import ArtifactError, GraphError
from ...runtime.dtype_names import name_of
from ..lowering.control_flow import WHILE_LOOP

FUNCTIONS: Mapping[str, Any] = {"getitem": operator.getitem, "while_loop": WHILE_LOOP}
"""What nodes call besides operators."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_NAMED: Mapping[str, type] = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def encode_argument(argument: Any) -> Any:
    """An argument as JSON; raises GraphError for what cannot be told again, such as a symbolic size."""
    if argument is None or type(argument) in (bool, int, str):
        return argument
    if type(argument) is float:
        return argument if math.isfinite(argument) else {"float": str(argument)}
    if isinstance(argument, fx.Node):
        return {"node": argument.name}
    if isinstance(argument, (list, tuple)):
        parts = [encode_argument(one) for one in argument]
        return parts if isinstance(argument, list) else {"tuple": parts}
    if isinstance(argument, torch.device):
        return {"device": str(argument)}
    for kind, one in _NAMED.items():
        if isinstance(argument, one):
            return {kind: str(argument).removeprefix("torch.")}
    raise GraphError(
        f"{argument!r} ({type(argument).__name__}) cannot be saved: only static arguments of operators can"
    )


def decode_argument(content: Any, nodes: Mapping[str, fx.Node]) -> Any:
    """What ``encode_argument`` was given; raises KeyError, TypeError or ValueError for anything else."""
    if isinstance(content, list):
        return [decode_argument(one, nodes) for one in content]
    if not isinstance(content, dict):
        return content
    ((kind, value),) = content.items()
    if kind == "tuple":
        return tuple(decode_argument(one, nodes) for one in value)
    decoders: Mapping[str, Callable[[Any], Any]] = {"node": nodes.__getitem__, "float": float, "device": torch.device}
    return decoders[kind](value) if kind in decoders else _named(kind, value)


def encode_type(value: Any) -> Any:
    """dtype, shape and strides of a tensor, or of several, as JSON; raises GraphError for other values."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        parts = [encode_type(one) for one in value]
        return parts if isinstance(value, list) else {"tuple": parts}
    if not isinstance(value, Tensor) or not all(type(size) is int for size in (*value.shape, *value.stride())):
        raise GraphError(f"{value!r} cannot be saved: only tensors of static shape can")
    return {"dtype": name_of(value.dtype), "shape": list(value.shape), "stride": list(value.stride())}


def decode_type(content: Any) -> Any:
    """Tensors without data, on the meta device; raises KeyError, TypeError or ValueError for damage."""
    if content is None:
        return None
    if isinstance(content, list):
        return [decode_type(one) for one in content]
    if "tuple" in content:
        return tuple(decode_type(one) for one in content["tuple"])
    shape, stride = (_sizes(content[name]) for name in ("shape", "stride"))
    if len(shape) != len(stride):
        raise ValueError(f"{len(shape)} sizes and {len(stride)} strides")
    return torch.empty_strided(shape, stride, dtype=_named("dtype", content["dtype"]), device="meta")


def encode_tensor(tensor: Tensor) -> dict[str, Any]:
    """dtype, shape and values of a constant as JSON; its strides are lost."""
    plain = tensor.detach().cpu().contiguous()
    data = bytes(plain.reshape(-1).view(torch.uint8).numpy()) if plain.numel() else b""
    return {"dtype": name_of(plain.dtype), "shape": list(plain.shape), "data": base64.b64encode(data).decode()}


def decode_tensor(content: Mapping[str, Any]) -> Tensor:
    """What ``encode_tensor`` was given; raises KeyError, TypeError or ValueError for damage."""
    dtype, shape = _named("dtype", content["dtype"]), _sizes(content["shape"])
    try:
        data = bytearray(base64.b64decode(content["data"], validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for a constant of type {dtype} and shape {shape}")
    return (
        torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)
        if data
        else torch.empty(shape, dtype=dtype)
    )


def encode_target(target: Any) -> str:
    """The name of what a node calls; raises GraphError for what is neither an operator nor one of ``FUNCTIONS``."""
    if isinstance(target, OpOverload):
        return f"{target.namespace}.{target._opname}.{target._overloadname}"
    for name, function in FUNCTIONS.items():
        if target is function:
            return name
    raise GraphError(f"{target} cannot be saved: only graphs of operators can, as the passes leave them")


def decode_target(name: str, libraries: Mapping[str, str]) -> Any:
    """What has the name of ``encode_target``.

    Args:
        libraries: the module that registers an operator, by the operator's name; only told, and never imported.

    Raises:
        ArtifactError: it is not registered in this process.
        ValueError: it is no such name.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    namespace, operator_name, overload = name.split(".")
    if not all(map(_NAME.fullmatch, (namespace, operator_name, overload))):
        raise ValueError(f"{name!r} is no name of an operator")
    operators = getattr(torch.ops, namespace)
    packet = getattr(operators, operator_name, None) if isinstance(operators, _OpNamespace) else None
    found = getattr(packet, overload, None) if isinstance(packet, OpOverloadPacket) else None
    if not isinstance(found, OpOverload):
        library = libraries.get(name)
        missing = f"import {library}" if library else f"this version of PyTorch is {torch.__version__}"
        raise ArtifactError(f"operator {name} is not registered in this process: {missing}")
    return found


def _sizes(content: Any) -> list[int]:
    if not isinstance(content, list) or not all(type(size) is int and size >= 0 for size in content):
        raise ValueError(f"{content!r} are no sizes")
    return content


def _named(kind: str, name: Any) -> Any:
    found = getattr(torch, str(name), None)
    if not isinstance(found, _NAMED[kind]):
        raise ValueError(f"{name!r} is no {kind}")
    return found
