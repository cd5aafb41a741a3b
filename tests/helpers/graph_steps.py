"""Steps as graphs after the passes of a target, with what their inputs are fed.

Run as ``graph_steps.py STEP...``, prints the digest of every operation of a ``RandomModel`` alone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject, stage_groups
from deepinfer_neuron.compiler.capture.capture import GraphInput, capture
from deepinfer_neuron.compiler.lowering.options import LoweringOptions, device_options
from deepinfer_neuron.compiler.regions.cut import CutGraph
from deepinfer_neuron.compiler.steps.decode_steps import as_fed, decode_step, tensors_of
from deepinfer_neuron.compiler.steps.pipeline import PassedGraph, pass_graph
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.passes.interval import Interval
from deepinfer_neuron.runtime.slots import padding_inputs
from fed_steps import NamedTarget
from random_graphs import ROWS, RandomModel, example_inputs
from torch import Tensor, fx

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)


@dataclass(frozen=True)
class TracedStep:
    """A graph after the passes, a tensor for each of its placeholders, and for a model's step its regions."""

    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    aliases: Mapping[int, int]
    stage_names: Sequence[str]
    cut: CutGraph | None


def options_of(target: str) -> LoweringOptions:
    """How graphs for a target are lowered."""
    return LoweringOptions() if target == "host" else device_options(target)


def trace_function(function: Callable[..., Any], *inputs: Tensor, target: str = "host") -> TracedStep:
    """A function or module of tensors whose integers are indices of at most ``ROWS`` rows."""
    graph = capture(function, inputs)

    def key(one: GraphInput):
        return one.name if one.tensor is None else (one.tensor.data_ptr(), one.dtype, one.shape, one.stride)

    passed = pass_graph(
        graph.module,
        NamedTarget(target),
        input_keys=[key(one) for one in graph.inputs],
        is_weight=lambda position: graph.inputs[position].role in {"param", "buffer"},
        value_range=lambda position: Interval(0, ROWS - 1),
    )
    names = inspect.signature(getattr(function, "forward", function)).parameters
    return _traced(passed, as_fed(tensors_of(graph, dict(zip(names, inputs, strict=True))), passed.context))


def trace_random(steps: Sequence[str], target: str = "host") -> TracedStep:
    """A ``RandomModel`` of these steps."""
    return trace_function(RandomModel(steps), *example_inputs(), target=target)


def subject_of(step: TracedStep, target: str = "host") -> GraphSubject:
    """What can be cut out of a step."""
    return GraphSubject(step.module, step.aliases, options_of(target), stage_groups(step.module, step.stage_names))


@cache
def trace_checkpoint(directory: Path, target: str, batch: int = 2) -> TracedStep:
    """The decode step of a checkpoint, with padding for inputs; nobody may change it."""
    model = load_model(open_checkpoint(directory), GEOMETRY, target_numerics(target))
    step = decode_step(model, batch, NamedTarget(target), "regions")
    return _traced(step.passed, step.fed(padding_inputs(model.decode_slots, batch)), step.cut)


def _traced(passed: PassedGraph, inputs: Sequence[Tensor], cut: CutGraph | None = None) -> TracedStep:
    context = passed.context
    return TracedStep(passed.module, tuple(inputs), context.aliases, context.stage_names, cut)


def digests_of(steps: Sequence[str]) -> list[str]:
    """Those of every operation alone of a ``RandomModel`` of these steps."""
    subject = subject_of(trace_random(steps))
    return [subject.candidate([index]).digest for index, item in enumerate(subject.items) if not item.is_result]


if __name__ == "__main__":
    print(*digests_of(sys.argv[1:]))
