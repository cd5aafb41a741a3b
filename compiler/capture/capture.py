"""Capture a decode step as one functional aten graph whose every input has a name and a role.

Dynamo traces the function once, with static shapes and without graph breaks, and AOTAutograd turns
the trace into a functional graph. Nothing is executed: no warm-up run, no Dynamo cache entry, no guard.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torch._dynamo.convert_frame import CaptureOutput, fullgraph_capture, get_traced_fn
from torch._dynamo.utils import get_metrics_context
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext, tracing
from torch.utils._pytree import keystr, tree_leaves_with_path

from ...errors import CaptureError, InputError
from ...runtime.structure import Description, describe
from ..lowering.complex_parts import split_complex
from ..lowering.higher_order import inline_higher_order
from .decompositions import DECOMPOSITIONS
from .errors import explain_capture_failure, refuse_symbolic_values
from .tracing import plain_tracing

Role = Literal["param", "buffer", "kv", "slot"]


@dataclass(frozen=True)
class GraphInput:
    """One input of a captured graph.

    Attributes:
        name: the placeholder's name.
        role: ``param``, ``buffer``, ``kv`` (a buffer that the step updates) or ``slot`` (an argument of the call).
        qualified_name: name of the tensor in the module, or of the argument.
        alias_root: qualified name of an earlier input that shares this one's memory, if any.
        tensor: the module's own tensor, of a complex one the real view of its memory; None for a slot.
    """

    name: str
    role: Role
    qualified_name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    alias_root: str | None
    tensor: Tensor | None


@dataclass(frozen=True)
class CapturedGraph:
    """A functional aten graph, the inputs behind its placeholders and the structure of its result."""

    module: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    result: Description


def capture(function: Callable[..., Any], example_inputs: Mapping[str, Any] | Sequence[Any]) -> CapturedGraph:
    """Capture ``function`` for the shapes of ``example_inputs``.

    Args:
        function: a module or a function.
        example_inputs: keyword arguments as a mapping, or positional arguments as a sequence. Their values are
            not used, only dtypes, shapes and strides; numbers become constants of the graph.

    Returns:
        The graph. Updates of buffers are ``aten.copy_(placeholder, value)`` nodes at its end.

    Raises:
        CaptureError: the function is not one static graph; the message names the source line.
    """
    args, kwargs = ((), dict(example_inputs)) if isinstance(example_inputs, Mapping) else (tuple(example_inputs), {})
    names = _argument_names(function, args, kwargs)
    with torch.no_grad():
        traced = _trace(function, args, kwargs)
        module, inputs = _to_aten(function, traced)
    return CapturedGraph(
        module=module,
        inputs=_describe_inputs(function, module, inputs, names),
        result=_describe_result(function, traced, inputs, args, kwargs, module),
    )


def _trace(function: Callable[..., Any], args: tuple, kwargs: dict) -> CaptureOutput:
    static = torch._dynamo.config.patch(
        assume_static_by_default=True,
        automatic_dynamic_shapes=False,
        specialize_int=True,
        specialize_float=True,
        replay_side_effects=False,
        side_effect_replay_policy="error",
    )
    try:
        with get_metrics_context(), static:
            traced = fullgraph_capture(function, args, kwargs)
    except Exception as error:
        raise explain_capture_failure(function, error) from error
    if traced.backend_input is None:
        raise CaptureError(f"{_name(function)} computes nothing with tensors, so there is nothing to compile")
    refuse_symbolic_values(function, traced.backend_input.graph_module)
    return traced


def _to_aten(function: Callable[..., Any], traced: CaptureOutput) -> tuple[fx.GraphModule, list[Tensor]]:
    """The functional graph and the real tensors behind its placeholders."""
    source = traced.backend_input
    assert source is not None
    captured: list[fx.GraphModule] = []

    def keep(module: fx.GraphModule, fake_inputs: Sequence[Any]) -> Callable[..., Any]:
        captured.append(module)
        return module.forward

    context = TracingContext(source.fake_mode)
    context.tensor_to_context = source.tensor_to_context
    inputs = list(source.example_inputs)
    with tracing(context), plain_tracing():
        aot_module_simplified(
            source.graph_module,
            inputs,
            fw_compiler=keep,  # pyright: ignore[reportArgumentType]
            inference_compiler=keep,  # pyright: ignore[reportArgumentType]
            decompositions=dict(DECOMPOSITIONS),
            keep_inference_input_mutations=True,
        )
    (module,) = captured
    if len(module.graph.find_nodes(op="placeholder")) != len(inputs):
        raise CaptureError(
            f"{_name(function)} updates memory that two of its tensors share: keep one buffer for it and take "
            "the views inside forward"
        )
    metadata = context.fw_metadata
    if metadata is None or metadata.num_mutated_inp_runtime_indices:
        raise CaptureError(f"{_name(function)} changes the shape or storage of a buffer: keep its shape fixed")
    (output,) = module.graph.find_nodes(op="output")
    output.args = (tuple(output.args[0][: len(metadata.output_info)]),)
    _refuse_complex_results(function, output)
    inline_higher_order(module)
    split_complex(module)
    return module, inputs


def _refuse_complex_results(function: Callable[..., Any], output: fx.Node) -> None:
    for position, result in enumerate(output.args[0]):  # pyright: ignore
        if isinstance(result, fx.Node) and result.meta["val"].dtype.is_complex:
            raise CaptureError(
                f"result {position} of {_name(function)} is complex: return torch.view_as_real(...) of it, which is "
                "what a device can hold"
            )


def _describe_inputs(
    function: Callable[..., Any], module: fx.GraphModule, tensors: Sequence[Tensor], arguments: Mapping[int, str]
) -> tuple[GraphInput, ...]:
    owned = _owned_names(function)
    updates = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    updated = {node.args[0] for node in updates}
    roots: dict[int, str] = {}
    inputs = []
    for node, tensor in zip(module.graph.find_nodes(op="placeholder"), tensors, strict=True):
        qualified_name = arguments.get(id(tensor)) or owned.get(id(tensor)) or node.name
        is_slot = id(tensor) in arguments
        if is_slot and node in updated:
            raise CaptureError(
                f"{_name(function)} updates its argument {qualified_name!r}: clone it first, or keep the state "
                "in a buffer"
            )
        role: Role = "slot" if is_slot else "kv" if node in updated else "buffer"
        if role == "buffer" and isinstance(tensor, torch.nn.Parameter):
            role = "param"
        if is_slot and tensor.is_complex():
            raise CaptureError(
                f"{_name(function)} has a complex argument {qualified_name!r}: pass torch.view_as_real(...) of it, and "
                "call torch.view_as_complex inside"
            )
        tensor = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor
        storage = tensor.untyped_storage().data_ptr()
        root = roots.setdefault(storage, qualified_name)
        inputs.append(
            GraphInput(
                name=node.name,
                role=role,
                qualified_name=qualified_name,
                dtype=tensor.dtype,
                shape=tuple(tensor.shape),
                stride=tuple(tensor.stride()),
                alias_root=None if root == qualified_name else root,
                tensor=None if is_slot else tensor,
            )
        )
    return tuple(inputs)


def _describe_result(
    function: Callable[..., Any],
    traced: CaptureOutput,
    inputs: Sequence[Tensor],
    args: tuple,
    kwargs: dict,
    module: fx.GraphModule,
) -> Description:
    """Learn the result's structure from Dynamo's bytecode, with stand-ins in the place of the graph's outputs.

    A result that is an input itself is appended to the graph's outputs.
    """
    (output,) = module.graph.find_nodes(op="output")
    results = list(output.args[0])
    stand_ins = tuple(torch.empty(0) for _ in results)
    numbers = {id(stand_in): position for position, stand_in in enumerate(stand_ins)}
    sources = {id(tensor): node for tensor, node in zip(inputs, module.graph.find_nodes(op="placeholder"), strict=True)}

    def number(tensor: Tensor) -> int:
        if id(tensor) not in numbers:
            if id(tensor) not in sources:
                raise InputError("a tensor that the step does not compute is returned: return computed tensors only")
            numbers[id(tensor)] = len(results)
            results.append(sources[id(tensor)])
        return numbers[id(tensor)]

    _, bound_self = get_traced_fn(function)
    if bound_self is not None:
        args = (bound_self, *args)
    result = traced.forward_callable(compiled_fn=lambda *ignored: stand_ins)(*args, **kwargs)
    try:
        description = describe(result, number)
    except InputError as error:
        raise CaptureError(f"{_name(function)}: {error}") from error
    output.args = (tuple(results),)
    return description


def _argument_names(function: Any, args: tuple, kwargs: dict) -> dict[int, str]:
    """Names of all tensors among the arguments, by identity."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(f"{_name(function)} cannot be called with the example inputs: {error}") from error
    names: dict[int, str] = {}
    owned = _owned_names(function)
    for path, leaf in tree_leaves_with_path(dict(bound.arguments)):
        if isinstance(leaf, Tensor):
            name = keystr(path[:1])[2:-2] + keystr(path[1:])
            known = names.get(id(leaf)) or owned.get(id(leaf))
            if known is not None:
                raise CaptureError(f"example inputs {known!r} and {name!r} are one tensor: pass a tensor for each")
            names[id(leaf)] = name
    return names


def _owned_names(function: Any) -> dict[int, str]:
    """Qualified names of a module's parameters and buffers, by identity."""
    if not isinstance(function, torch.nn.Module):
        return {}
    owned: dict[int, str] = {}
    for name, tensor in [*function.named_parameters(), *function.named_buffers()]:
        owned.setdefault(id(tensor), name)
    return owned


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
