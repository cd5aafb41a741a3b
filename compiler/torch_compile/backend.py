"""The TorchDynamo backend: ``torch.compile(anything, backend="deepinfer_neuron")``.

Forward and, where a gradient is wanted, backward graphs are compiled by the same passes, lowering and
target as a decode step. What cannot be compiled is refused with a reason; nothing runs in eager PyTorch
unless ``DEEPINFER_ENFORCE_EAGER`` asks for it. ``torch._dynamo.utils.counters["deepinfer_neuron"]`` counts
the programs that were compiled and run.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...errors import CaptureError, ConfigError, GraphError, LoweringError
from ...settings import settings
from ..capture.decompositions import DECOMPOSITIONS
from ..capture.tracing import plain_tracing
from ..lowering.options import Numerics
from ..steps.pipeline import check_numerics, shape_graph
from ..targets.table import find_target
from .aliasing import refuse_offsets, shared_memory
from .call_programs import CallPrograms
from .compiled_function import CompiledFunction
from .data_dependent_sizes import refuse_data_dependent_sizes
from .eager_operators import PartsFunction, split_graph
from .lost_updates import explained_overlaps, refuse_lost_updates
from .modes import check_mode, refuse_aot_compile
from .open_numbers import open_numbers, with_numbers

OPTIONS = ("numerics", "target", "unsupported")

Compiled = Callable[..., Any]


@dataclass(frozen=True)
class BackendOptions:
    """How graphs are compiled: for which target, with which numerics, and what becomes of unsupported operators."""

    target: str = "host"
    numerics: Numerics = "fast"
    unsupported: Literal["error", "eager"] = "error"


def deepinfer_neuron(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Compiled:
    """Compile a Dynamo graph.

    Programs have static shapes. Where Dynamo leaves a size or a number open, because it saw it change or because
    ``dynamic=True`` or ``mark_dynamic`` asks for it, the graph is compiled when it is called: once for each set of
    sizes and numbers, of which the ``MAXIMUM_PROGRAMS`` used last are kept.

    Args:
        options: ``numerics`` ("fast" or "exact") and ``target``, as for ``compile_decode``; ``unsupported``: "error",
            or "eager" to run operators without a lowering in eager PyTorch, between programs. They are counted, and a
            warning names them.
        mode: one of PyTorch's modes, which other backends choose their work by; changes nothing, see ``check_mode``.

    Raises:
        ConfigError: an unknown option or mode, or a call of ``aot_compile``.
        CaptureError: a size depends on the values of tensors, or a tensor whose elements overlap is updated.
        GraphError: the graph updates an input in a way that PyTorch forgets.
        LoweringError: an operator has no lowering.
        CompileError: the target's compiler refused the program.
    """
    if settings().enforce_eager:
        return module.forward
    check_mode(mode)
    refuse_aot_compile()
    refuse_lost_updates(module)
    chosen = _check_options(dict(options or {}))
    numbers = open_numbers(module.graph)
    if not numbers:
        return _compile_static(module, chosen, example_inputs)
    return CallPrograms(partial(_compile_call, module, chosen), numbers.of_call, "sizes and numbers")


def _check_options(options: Mapping[str, Any]) -> BackendOptions:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"unknown options {unknown} of the deepinfer_neuron backend: expected {list(OPTIONS)}")
    default = BackendOptions()
    target = options.get("target", default.target)
    find_target(target)
    unsupported = options.get("unsupported", default.unsupported)
    if unsupported not in ("error", "eager"):
        raise ConfigError(f"unknown unsupported={unsupported!r}: expected 'error' or 'eager'")
    return BackendOptions(target, check_numerics(options.get("numerics", default.numerics)), unsupported)


def _compile_call(module: fx.GraphModule, options: BackendOptions, inputs: Sequence[Any]) -> Compiled:
    """The program of a graph with open numbers for calls with the sizes and numbers of ``inputs``."""
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    with tracing(TracingContext(FakeTensorMode())):
        compiled = _compile_static(with_numbers(module, inputs), options, tensors)
    return lambda *arguments: compiled(*(value for value in arguments if isinstance(value, Tensor)))


def _compile_static(module: fx.GraphModule, options: BackendOptions, inputs: Sequence[Any]) -> Compiled:
    """The program of a graph whose sizes and numbers are known; one for each overlap of inputs that it updates."""
    compile_inputs = partial(_compile_with_autograd, module, options)
    compiled = compile_inputs(inputs)
    if not _updates_inputs():
        return compiled
    programs = CallPrograms(compile_inputs, shared_memory, "overlaps of its inputs")
    programs.add(inputs, compiled)
    return programs


def _compile_with_autograd(module: fx.GraphModule, options: BackendOptions, inputs: Sequence[Any]) -> Compiled:
    compiler = (
        partial(_compile_or_split, options) if options.unsupported == "eager" else partial(compile_graph, options)
    )
    compile_with_autograd = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        decompositions=dict(DECOMPOSITIONS),
        keep_inference_input_mutations=True,
    )
    # Replayed views of inputs that share memory begin at the shared memory instead of the input.
    replay = not shared_memory(inputs)
    with plain_tracing(), explained_overlaps(), functorch_config.patch(view_replay_for_aliased_outputs=replay):
        compiled = compile_with_autograd(module, inputs)
    return compiled if replay or not (_updates_inputs() and _returns_views()) else refuse_offsets(compiled, inputs)


def _returns_views() -> bool:
    """Whether a result of the graph that AOTAutograd has just compiled is a view of an input."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return metadata is None or any(info.output_type is OutputType.alias_of_input for info in metadata.output_info)


def _updates_inputs() -> bool:
    """Whether the graph that AOTAutograd has just compiled updates an input."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return metadata is None or any(info.mutates_data or info.mutates_metadata for info in metadata.input_info)


def compile_graph(
    options: BackendOptions, module: fx.GraphModule, example_inputs: Sequence[Any] = ()
) -> CompiledFunction:
    """Compile one functional aten graph, whose inputs it may update by trailing ``copy_`` nodes."""
    refuse_data_dependent_sizes(module)
    (output,) = module.graph.find_nodes(op="output")
    results = tuple(output.args[0]) if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    output.args = (tuple(result for result in results if isinstance(result, fx.Node)),)
    layouts = [result.meta["val"] if isinstance(result, fx.Node) else result for result in results]
    offsets = _offsets_of_inputs(module)
    target = find_target(options.target)
    # AOTAutograd compiles within the mode it traced in, where constants of the graph could not be read.
    with unset_fake_temporarily():
        shaped = shape_graph(module, target, options.numerics)
        artifact = target.compile(shaped.lowered)
    counters["deepinfer_neuron"]["programs_compiled"] += 1
    return CompiledFunction(artifact, shaped.carriers, layouts, offsets)


def _offsets_of_inputs(module: fx.GraphModule) -> Mapping[int, int]:
    """Where inputs begin in their memory, if the graph has views that count from there."""
    if not module.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        return {}
    values = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    return {index: int(value.storage_offset()) for index, value in enumerate(values) if isinstance(value, Tensor)}


def _compile_or_split(options: BackendOptions, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """The program of a graph, or its parts where operators have no lowering."""
    try:
        return compile_graph(options, copy.deepcopy(module))
    except (CaptureError, GraphError, LoweringError):
        target = find_target(options.target)
        parts = split_graph(
            module,
            lambda part: shape_graph(part, target, options.numerics),
            partial(compile_graph, options),
        )
    counters["deepinfer_neuron"]["operators_left_in_eager"] += len(parts.eager)
    warnings.warn(
        f"operators without a lowering run in eager PyTorch: {', '.join(parts.eager)}",
        stacklevel=2,
    )
    return PartsFunction(parts)
