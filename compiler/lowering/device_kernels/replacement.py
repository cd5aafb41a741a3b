"""Which calls of custom operators a device kernel replaces, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from ....errors import LoweringError
from ....runtime.artifacts import TensorType
from ..call_arguments import is_custom
from ..decompose import bound_arguments, record_for, signature, tensor_types
from ..options import LoweringOptions
from .kernel import CompilerCall, DeviceKernel, OperatorCall
from .nki_program import NkiProgram, compile_nki, is_importable
from .registry import known_kernels


@dataclass(frozen=True)
class Replacement:
    """What stands for a call.

    Attributes:
        kernel: that computes it.
        operands: graph from the call's distinct tensors to the kernel's operands.
        outputs: types of the kernel's outputs.
        result: graph from the call's distinct tensors and the kernel's outputs to what the operator returns.
        config: backend config of the custom call.
        files: that the config names, by ``<directory>/<name>``.
    """

    kernel: DeviceKernel
    operands: fx.GraphModule
    outputs: tuple[TensorType, ...]
    result: fx.GraphModule
    config: str
    files: Mapping[str, bytes] = field(default_factory=dict)


class Replacements:
    """Replacements for the target of ``options``, made once for each signature of a call. None without a target."""

    def __init__(self, options: LoweringOptions) -> None:
        self._options = options
        self._kernels = known_kernels() if options.kernels_for else ()
        self._is_usable: dict[str, bool] = {}
        self._made: dict[Any, Replacement] = {}

    @property
    def has_kernels(self) -> bool:
        """Whether anything could be replaced."""
        return bool(self._kernels)

    @property
    def usable(self) -> list[DeviceKernel]:
        """The kernels for the target that are installed."""
        return [kernel for kernel in self._kernels if self._can_use(kernel)]

    def kernel(self, node: fx.Node) -> DeviceKernel | None:
        """The first kernel that is installed, for the target, and accepts the node's call."""
        if not self._kernels or not is_custom(node.target):
            return None
        candidates = [one for one in self._kernels if one.operator == str(node.target) and self._can_use(one)]
        call = OperatorCall.of_node(node) if candidates else None
        return next((one for one in candidates if call is not None and one.accepts(call)), None)

    def find(self, node: fx.Node) -> Replacement | None:
        """What replaces the node; None if its body stays.

        Raises:
            LoweringError: the kernel does not fit the operator, NKI's compiler says otherwise than the table, or the
                kernel writes into a tensor that others read.
        """
        kernel = self.kernel(node)
        if kernel is None:
            return None
        key = signature(node)
        if key not in self._made:
            self._made[key] = self._make(kernel, node)
        _check_aliased(self._made[key], node)
        return self._made[key]

    def _can_use(self, kernel: DeviceKernel) -> bool:
        if kernel.name not in self._is_usable:
            target = self._options.kernels_for
            is_installed = isinstance(kernel.code, CompilerCall) or is_importable(kernel.code)
            self._is_usable[kernel.name] = target is not None and target.name in kernel.targets and is_installed
        return self._is_usable[kernel.name]

    def _make(self, kernel: DeviceKernel, node: fx.Node) -> Replacement:
        bound = bound_arguments(node)
        types = tensor_types(node)

        def operands(*tensors: Tensor) -> tuple[Tensor, ...]:
            args, kwargs = bound(tensors)
            return kernel.operands(*args, **kwargs)

        def result(*tensors: Tensor) -> tuple[Tensor, ...]:
            args, kwargs = bound(tensors[: len(types)])
            return tuple(tree_leaves(kernel.result(tensors[len(types) :], *args, **kwargs)))

        given = record_for(operands, types, self._options)
        given_types = returned_types(given)
        outputs = kernel.outputs(*given_types)
        returned = record_for(result, [*types, *outputs], self._options)
        _check_result(kernel, returned_types(returned), node)
        program = self._program(kernel, node, given_types, outputs)
        return Replacement(kernel, given, described(outputs), returned, program.config, program.files)

    def _program(
        self, kernel: DeviceKernel, node: fx.Node, operands: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> NkiProgram:
        args, kwargs = bound_arguments(node)(tensor_types(node))
        if isinstance(kernel.code, CompilerCall):
            return NkiProgram(kernel.code.config(*args, **kwargs), {})
        target = self._options.kernels_for
        assert target is not None, "no kernel is chosen without a target"
        constants = kernel.code.constants(*args, **kwargs)
        return compile_nki(kernel.code, described(operands), described(outputs), constants, kernel.aliases, target)


def described(tensors: Sequence[Tensor]) -> tuple[TensorType, ...]:
    """The types of tensors."""
    return tuple(TensorType(one.dtype, tuple(one.shape)) for one in tensors)


def returned_nodes(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that a recorded graph returns."""
    (output,) = module.graph.find_nodes(op="output")
    return list(output.args[0])


def returned_types(module: fx.GraphModule) -> list[Tensor]:
    """Tensors without data like those that a recorded graph returns."""
    values = [node.meta["val"] for node in returned_nodes(module)]
    return [torch.empty(one.shape, dtype=one.dtype, device="meta") for one in values]


def _check_result(kernel: DeviceKernel, made: Sequence[Tensor], node: fx.Node) -> None:
    expected = described([one for one in tree_leaves(node.meta["val"]) if isinstance(one, Tensor)])
    if described(made) != expected:
        raise LoweringError(
            f"kernel {kernel.name!r} makes {list(map(str, described(made)))} of {node.target}, which returns "
            f"{list(map(str, expected))}: correct its result function"
        )


def _check_aliased(replacement: Replacement, node: fx.Node) -> None:
    """An operand that is written into has to be the call's own: a new value, or one that nothing else reads."""
    operands = returned_nodes(replacement.operands)
    inputs, later = (module.graph.find_nodes(op="placeholder") for module in (replacement.operands, replacement.result))
    for operand in replacement.kernel.aliases.values():
        if operands[operand] not in inputs:
            continue
        position = inputs.index(operands[operand])
        source = node.all_input_nodes[position]
        if source.op != "call_function" or set(source.users) != {node} or later[position].users:
            raise LoweringError(
                f"kernel {replacement.kernel.name!r} writes into its operand {operand}, which is {source.name!r} and "
                "is read by others: copy it in the kernel's operands function"
            )
