"""The contract of a kernel: what it computes is what the operator's eager body computes, within its bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ..compiler.lowering.device_kernels.kernel import CompilerCall, DeviceKernel, NkiSource, OperatorCall
from ..compiler.lowering.device_kernels.replacement import described
from ..errors import ConfigError
from ..runtime.artifacts import TensorType
from .distance import Difference, difference

KernelRun = Callable[[Sequence[Tensor], Mapping[str, Any]], Sequence[Tensor]]
"""Executes a kernel: of its operands and its constants by name, the outputs."""


@dataclass(frozen=True)
class KernelCheck:
    """What came of a kernel's examples.

    Attributes:
        kernel: its name.
        examples: how many were run.
        differences: from eager's results, by their dtype, all examples together.
        problems: what breaks the contract, with the number of the example.
    """

    kernel: str
    examples: int
    differences: Mapping[torch.dtype, Difference]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the kernel keeps the contract."""
        return self.examples > 0 and not self.problems


def check_kernel(kernel: DeviceKernel, run: KernelRun, seed: int = 0) -> KernelCheck:
    """Run a kernel on its examples, drawn with ``seed``, and compare it with the operator's eager body.

    It has to accept each example, to return what its ``outputs`` says, to leave alone the operands that it has no alias
    for, and to be within the bar of each result's dtype.

    Raises:
        ConfigError: the operator does not exist in this process.
    """
    operator = _operator(kernel)
    differences: dict[torch.dtype, Difference] = {}
    problems: list[str] = []
    examples = kernel.examples(torch.Generator().manual_seed(seed))
    for number, arguments in enumerate(examples):
        expected = _tensors(operator(*tree_map(_copy, arguments)))
        found, wrong = _run_example(kernel, run, arguments)
        for actual, reference in zip(found, expected, strict=False):
            bar = kernel.bars.get(reference.dtype)
            if bar is None:
                wrong.append(f"no bar for {reference.dtype}")
                continue
            apart = difference(actual, reference, bar.of_largest)
            differences[reference.dtype] = differences.get(reference.dtype, Difference()) + apart
            if apart.ulps > bar.ulps or apart.mismatched > bar.fraction * apart.elements:
                wrong.append(f"{apart.mismatched} of {apart.elements} elements differ, by up to {apart.ulps:g} ulps")
        if found and described(found) != described(expected):
            wrong.append(f"results are {_listed(described(found))} instead of {_listed(described(expected))}")
        problems += [f"example {number}: {problem}" for problem in wrong]
    return KernelCheck(kernel.name, len(examples), differences, tuple(problems))


def simulated(kernel: DeviceKernel) -> KernelRun:
    """The kernel in NKI's CPU simulator, for ``check_kernel`` (AWS Neuron documentation, "NKI Simulator").

    Which form of tensors comes back from it is not documented; arrays and tensors are taken.

    Raises:
        ConfigError: the kernel has no NKI source.
    """
    source = kernel.code
    if not isinstance(source, NkiSource):
        raise ConfigError(f"kernel {kernel.name!r} is inside neuronx-cc, where no simulator runs it")

    def run(operands: Sequence[Tensor], constants: Mapping[str, Any]) -> Sequence[Tensor]:
        function = getattr(import_module(source.module), source.function)
        named = dict(zip(source.operands, operands, strict=True))
        returned = import_module("nki").simulate(function)(**named, **constants)
        outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
        return [torch.as_tensor(one) for one in outputs]

    return run


def _run_example(kernel: DeviceKernel, run: KernelRun, arguments: tuple[Any, ...]) -> tuple[list[Tensor], list[str]]:
    """The operator's results by way of the kernel, and what was wrong before they could be compared."""
    given = tree_map(_copy, arguments)
    operands = [one.contiguous() for one in kernel.operands(*given)]
    before = [one.clone() for one in operands]
    wrong = [] if kernel.accepts(_call(kernel, arguments)) else ["the kernel does not accept its own example"]
    types = tree_map(lambda one: one.to("meta") if isinstance(one, Tensor) else one, arguments)
    constants = {} if isinstance(kernel.code, CompilerCall) else kernel.code.constants(*types)
    outputs = tuple(run(operands, constants))
    expected = described(kernel.outputs(*(one.to("meta") for one in before)))
    if described(outputs) != expected:
        return [], [*wrong, f"outputs are {_listed(described(outputs))} instead of {_listed(expected)}"]
    for position, (one, old) in enumerate(zip(operands, before, strict=True)):
        if position not in kernel.aliases.values() and difference(one, old).mismatched:
            wrong.append(f"operand {position} was written into, and no alias says so")
    return _tensors(kernel.result(outputs, *given)), wrong


def _operator(kernel: DeviceKernel) -> Any:
    namespace, name, overload = kernel.operator.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        raise ConfigError(f"there is no operator {kernel.operator}: import the module that defines it first")
    return getattr(packet, overload)


def _call(kernel: DeviceKernel, arguments: tuple[Any, ...]) -> OperatorCall:
    schema = _operator(kernel)._schema.arguments
    values = [*arguments, *(one.default_value for one in schema[len(arguments) :])]
    typed = tree_map(lambda one: TensorType(one.dtype, tuple(one.shape)) if isinstance(one, Tensor) else one, values)
    return OperatorCall(kernel.operator, {one.name: value for one, value in zip(schema, typed, strict=True)})


def _tensors(result: Any) -> list[Tensor]:
    return [one for one in tree_leaves(result) if isinstance(one, Tensor)]


def _copy(one: Any) -> Any:
    return one.clone() if isinstance(one, Tensor) else one


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))
