"""The graph of what a Python function does to tensors, recorded from one run of it on tensors without data.

``make_fx`` over fake tensors records the same graph, at several times the cost: it serves symbolic shapes, autograd
and subclasses, none of which a decomposition with static shapes has. Here a tensor is its type on the meta device and
the node that makes it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ...errors import LoweringError
from ...passes.context import erase_unused
from ...passes.lazy_module import lazy_module
from ...passes.result_type import as_type, result_type
from .control_flow import WHILE_LOOP

aten = torch.ops.aten


def record(function: Callable[..., Any], inputs: Sequence[Tensor]) -> fx.GraphModule:
    """The functional aten graph of ``function``: a placeholder for each input, results as it returns them.

    Only dtype, shape and strides of ``inputs`` are read. Operators that update their arguments are recorded in
    their functional form; tensors that ``function`` closes over become constants.

    Raises:
        LoweringError: a result depends on values of tensors.
    """
    with torch.inference_mode(False), torch.no_grad():
        try:
            return _Recorder().run(function, inputs)
        except _UpdatesArgumentError:
            return _recorded_functionally(function, inputs)


def _recorded_functionally(function: Callable[..., Any], inputs: Sequence[Tensor]) -> fx.GraphModule:
    try:
        return _Recorder().run(torch.func.functionalize(function), inputs)
    except _UpdatesArgumentError as error:
        raise LoweringError(f"{error}, which is an input of the recorded function") from error


class _UpdatesArgumentError(Exception):
    """The function has to be functionalised."""


class _Recorded(Tensor):
    """A tensor without data: on the CPU for those who ask, its type on the meta device beside it."""

    node: fx.Node
    type_only: Tensor

    @staticmethod
    def __new__(cls, node: fx.Node, type_only: Tensor) -> _Recorded:
        recorded = Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            type_only.shape,
            type_only.stride(),
            type_only.storage_offset(),
            dtype=type_only.dtype,
            device=torch.device("cpu"),
        )
        recorded.node = node
        recorded.type_only = type_only
        return recorded

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise LoweringError(f"{func} is called on a recorded tensor outside its recording")


class _Recorder(TorchDispatchMode):
    """Writes one node for each operator that reaches the dispatcher."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._root = torch.nn.Module()
        self._graph = fx.Graph()
        self._constants: dict[int, fx.Node] = {}

    def run(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> fx.GraphModule:
        """Record ``function`` on stand-ins for ``inputs``."""
        stand_ins = [
            self._remember(self._graph.placeholder(f"input_{index}"), _type_of(one)) for index, one in enumerate(inputs)
        ]
        with self:
            results = function(*stand_ins)
        self._graph.output(tree_map(self._node_of, results))
        erase_unused(self._graph)
        return lazy_module(self._root, self._graph)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            return self._record_loop(func, *args)
        if func is aten.lift_fresh.default:
            return args[0]
        if func._schema.is_mutable:
            raise _UpdatesArgumentError(f"{func} updates an argument")
        return self._record_call(func, args, kwargs or {})

    def _record_call(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        types = [_mapped(one, _type_of) for one in args]
        keywords = {name: _mapped(one, _type_of) for name, one in kwargs.items()}
        try:
            value = result_type(func, types, keywords)
        except (NotImplementedError, RuntimeError) as error:
            raise LoweringError(f"{func} cannot be recorded on tensors without values: {error}") from error
        node = self._graph.call_function(
            func,
            tuple(_mapped(one, self._node_of) for one in args),
            {name: _mapped(one, self._node_of) for name, one in kwargs.items()},
        )
        return self._remember(node, value)

    def _record_loop(
        self,
        func: HigherOrderOperator,
        condition: Callable[..., Any],
        body: Callable[..., Any],
        carried: Sequence[Tensor],
        constants: Sequence[Any],
    ) -> Any:
        if func is not WHILE_LOOP:
            raise LoweringError(f"{func} has no lowering: write the loop as while_loop, or unroll it")
        operands = [*carried, *constants]
        graphs = [record(one, operands) for one in (condition, body)]
        number = sum(name.startswith("while_loop_condition") for name in self._root._modules)
        names = [f"while_loop_{part}_{number}" for part in ("condition", "body")]
        for name, graph in zip(names, graphs, strict=True):
            self._root.add_module(name, graph)
        node = self._graph.call_function(
            func,
            (
                *[self._graph.get_attr(name) for name in names],
                tuple(self._node_of(one) for one in carried),
                tuple(_mapped(one, self._node_of) for one in constants),
            ),
        )
        return self._remember(node, tuple(_type_of(one) for one in carried))

    def _remember(self, node: fx.Node, value: Any) -> Any:
        """Describe ``node`` and return what stands for its value."""
        node.meta["val"] = value
        if isinstance(value, Tensor):
            return _Recorded(node, value)
        if isinstance(value, (tuple, list)):
            parts = [self._graph.call_function(operator.getitem, (node, index)) for index in range(len(value))]
            return type(value)(map(self._remember, parts, value))
        return value

    def _node_of(self, one: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        node = one.node if isinstance(one, _Recorded) else self._constant(one)
        if node.graph is not self._graph:
            raise LoweringError(f"a loop's body uses {node.name} from outside: give it to while_loop as a constant")
        return node

    def _constant(self, tensor: Tensor) -> fx.Node:
        """A node for a tensor with data."""
        if id(tensor) not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._root.register_buffer(name, tensor)
            node = self._graph.get_attr(name)
            node.meta["val"] = _type_of(tensor)
            self._constants[id(tensor)] = node
        return self._constants[id(tensor)]


def _type_of(one: Any) -> Any:
    if not isinstance(one, Tensor):
        return one
    return one.type_only if isinstance(one, _Recorded) else as_type(one)


def _mapped(argument: Any, function: Callable[[Any], Any]) -> Any:
    """``function`` of an argument, or of the parts of a nested list."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_mapped(one, function) for one in argument)
    return function(argument)
