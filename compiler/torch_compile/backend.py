"""The TorchDynamo backend: ``torch.compile(anything, backend="deepinfer_neuron")``.

Forward and, where a gradient is wanted, backward graphs are compiled by the same passes, lowering and
target as a decode step. What cannot be compiled is refused with a reason; nothing runs in eager PyTorch
unless ``DEEPINFER_ENFORCE_EAGER`` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from ...errors import CaptureError, ConfigError
from ...settings import settings
from ..capture.decompositions import DECOMPOSITIONS
from ..capture.tracing import plain_tracing
from ..lowering.options import Numerics
from ..steps.pipeline import check_numerics, shape_graph
from ..targets.table import find_target
from .aliasing import CompiledPerAliasing
from .compiled_function import CompiledFunction
from .data_dependent_sizes import refuse_data_dependent_sizes
from .modes import check_mode, refuse_aot_compile

OPTIONS = ("numerics", "target")


def deepinfer_neuron(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph.

    Shapes are static: when Dynamo marks a size as dynamic because it saw it change, each shape gets a program of
    its own. ``torch.compile(dynamic=True)`` is refused.

    Args:
        options: ``numerics`` ("fast" or "exact") and ``target``, as for ``compile_decode``.
        mode: one of PyTorch's modes, such as "reduce-overhead"; changes nothing, see ``check_mode``.

    Raises:
        ConfigError: an unknown option or mode, or a call of ``aot_compile``.
        CaptureError: dynamic shapes were asked for, or a size depends on the values of tensors.
        LoweringError: an operator has no lowering.
        CompileError: the target's compiler refused the program.
    """
    if settings().enforce_eager:
        return module.forward
    check_mode(mode)
    refuse_aot_compile()
    choices = dict(options or {})
    unknown = sorted(set(choices) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"unknown options {unknown} of the deepinfer_neuron backend: expected {list(OPTIONS)}")
    if _has_symbolic_inputs(module):
        return _compile_each_shape(module, choices)
    compiler = partial(
        compile_graph, target=choices.get("target", "host"), numerics=check_numerics(choices.get("numerics", "fast"))
    )
    compile_inputs = partial(_compile_with_autograd, module, compiler)
    compiled = compile_inputs(example_inputs)
    return CompiledPerAliasing(compile_inputs, compiled, example_inputs) if _updates_inputs() else compiled


def _compile_with_autograd(
    module: fx.GraphModule, compiler: Callable[..., CompiledFunction], inputs: Sequence[Any]
) -> Callable[..., Any]:
    compile_with_autograd = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        decompositions=dict(DECOMPOSITIONS),
        keep_inference_input_mutations=True,
    )
    with plain_tracing():
        return compile_with_autograd(module, inputs)


def _updates_inputs() -> bool:
    """Whether the graph that AOTAutograd has just compiled updates an input."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return metadata is None or any(info.mutates_data or info.mutates_metadata for info in metadata.input_info)


def compile_graph(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, target: str, numerics: Numerics
) -> CompiledFunction:
    """Compile one functional aten graph, whose inputs it may update by trailing ``copy_`` nodes."""
    refuse_data_dependent_sizes(module)
    (output,) = module.graph.find_nodes(op="output")
    results = tuple(output.args[0])
    output.args = (tuple(result for result in results if isinstance(result, fx.Node)),)
    layouts = [result.meta["val"] if isinstance(result, fx.Node) else None for result in results]
    chosen = find_target(target)
    shaped = shape_graph(module, chosen, numerics)
    return CompiledFunction(chosen.compile(shaped.lowered), shaped.carriers, layouts)


def _has_symbolic_inputs(module: fx.GraphModule) -> bool:
    values = [node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder")]
    sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else (value,))]
    return any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes)


def _compile_each_shape(module: fx.GraphModule, options: Mapping[str, Any]) -> Callable[..., Any]:
    if not torch._dynamo.config.assume_static_by_default:
        raise CaptureError(
            "the deepinfer_neuron backend compiles static shapes: use dynamic=False, or leave dynamic out to get a "
            "program for each shape that occurs"
        )
    backend = partial(deepinfer_neuron, options=options)
    return torch.compile(module, backend=backend, dynamic=False, fullgraph=True)
