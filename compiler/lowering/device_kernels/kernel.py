"""What a device kernel is: which calls of an operator it computes, on what, how it is called, how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from ....runtime.artifacts import TensorType
from ..call_arguments import named_arguments

NATIVE_KERNEL = "AwsNeuronCustomNativeKernel"
"""The custom call of every NKI kernel (AWS Neuron documentation, error NCC_EVRF059)."""

Evidence = Literal["documented", "reported", "inferred"]
"""How an interface is known: from AWS Neuron's documentation, from public code that uses it, or from either."""


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator: its arguments by their schema names, tensors as their types, defaults filled in."""

    operator: str
    arguments: Mapping[str, Any]

    @classmethod
    def of_node(cls, node: fx.Node) -> OperatorCall:
        """The call that a node makes."""
        named = {name: map_arg(value, _type_of) for name, value in named_arguments(node).items()}
        return cls(str(node.target), named)


def _type_of(node: fx.Node) -> Any:
    value: Tensor = node.meta["val"]
    return TensorType(value.dtype, tuple(value.shape))


@dataclass(frozen=True)
class CompilerCall:
    """A kernel inside neuronx-cc.

    Attributes:
        target: the name of its custom call.
        config: the call's backend config, of the operator's arguments with tensors that have no data.
    """

    target: str
    config: Callable[..., str]


@dataclass(frozen=True)
class NkiSource:
    """A kernel written in NKI, which NKI's own compiler turns into a file and the backend config of its call.

    Attributes:
        module: where it is imported from.
        function: its name there.
        operands: names of its tensor parameters, in the order of its signature.
        constants: its other parameters by name, of the operator's arguments with tensors that have no data.
    """

    module: str
    function: str
    operands: tuple[str, ...]
    constants: Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Bar:
    """How far results may be from eager's: ``fraction`` of the elements at all, none by more than ``ulps``.

    An ulp is that of eager's element, or that of its largest one if ``of_largest``.
    """

    ulps: float
    fraction: float = 1.0
    of_largest: bool = False


@dataclass(frozen=True)
class DeviceKernel:
    """One kernel for calls of one operator; all its functions are plain functions of a file.

    Attributes:
        name: unique among kernels.
        operator: the overload that it replaces, such as ``deepinfer.rms_norm.default``.
        targets: the devices it is for.
        accepts: whether it computes a call.
        operands: what it is given, of the operator's arguments.
        outputs: tensors of the types that it returns, of its operands; run on tensors without data.
        result: what the operator returns, of the kernel's outputs and the operator's arguments.
        code: how it is called.
        examples: arguments of the operator, with data from a generator, that show what it has to get right.
        bars: how exact it has to be, by the dtype of a result.
        evidence: how its interface is known.
        source: where that was read.
        aliases: number of the operand that an output is written into, by the number of the output.
    """

    name: str
    operator: str
    targets: tuple[str, ...]
    accepts: Callable[[OperatorCall], bool]
    operands: Callable[..., tuple[Tensor, ...]]
    outputs: Callable[..., tuple[Tensor, ...]]
    result: Callable[..., Tensor | tuple[Tensor, ...]]
    code: CompilerCall | NkiSource
    examples: Callable[[torch.Generator], Sequence[tuple[Any, ...]]]
    bars: Mapping[torch.dtype, Bar]
    evidence: Evidence
    source: str
    aliases: Mapping[int, int] = field(default_factory=dict)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions that decide what is compiled."""
        code = self.code.config if isinstance(self.code, CompilerCall) else self.code.constants
        return self.accepts, self.operands, self.outputs, self.result, code

    @property
    def call_target(self) -> str:
        """The name of its custom call."""
        return self.code.target if isinstance(self.code, CompilerCall) else NATIVE_KERNEL
