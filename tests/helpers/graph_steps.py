"""Steps as graphs after the passes of a target, with what their inputs are fed.

Run as ``graph_steps.py STEP...``, prints the digest of every operation of a ``RandomModel`` alone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject, stage_groups
from deepinfer_neuron.compiler.capture.capture import CapturedGraph, GraphInput, capture
from deepinfer_neuron.compiler.lowering.options import LoweringOptions, device_options
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.compiler.steps.pipeline import PassedGraph, pass_graph
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.passes.interval import Interval
from deepinfer_neuron.verification.step import Step, as_fed, tensors_of
from random_graphs import ROWS, RandomModel, example_inputs
from torch import Tensor

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)


@dataclass(frozen=True)
class NamedTarget:
    """A target of which only the name is asked."""

    name: str


def options_of(target: str) -> LoweringOptions:
    """How graphs for a target are lowered."""
    return LoweringOptions() if target == "host" else device_options(target)


def trace_function(function: Callable[..., Any], *inputs: Tensor, target: str = "host") -> Step:
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
    return _step(graph, passed, dict(zip(names, inputs, strict=True)))


def trace_random(steps: Sequence[str], target: str = "host") -> Step:
    """A ``RandomModel`` of these steps."""
    return trace_function(RandomModel(steps), *example_inputs(), target=target)


def subject_of(step: Step, target: str = "host") -> GraphSubject:
    """What can be cut out of a step."""
    return GraphSubject(step.module, step.aliases, options_of(target), stage_groups(step.module, step.stage_names))


@cache
def trace_nano(directory: Path, target: str, batch: int = 2) -> Step:
    """The decode step of a checkpoint, with padding for inputs; nobody may change it."""
    model = load_model(open_checkpoint(directory), GEOMETRY, target_numerics(target))
    inputs = {
        spec.name: torch.full((batch, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in model.decode_slots
    }
    graph = capture(model, inputs)
    return _step(graph, pass_captured(graph, NamedTarget(target), model.decode_slots), inputs)


def _step(graph: CapturedGraph, passed: PassedGraph, inputs: dict[str, Tensor]) -> Step:
    context = passed.context
    return Step(
        module=passed.module,
        inputs=tuple(as_fed(tensors_of(graph, inputs), context)),
        aliases=context.aliases,
        carried={},
        stage_names=context.stage_names,
        input_names=[one.qualified_name for one in graph.inputs],
    )


def digests_of(steps: Sequence[str]) -> list[str]:
    """Those of every operation alone of a ``RandomModel`` of these steps."""
    subject = subject_of(trace_random(steps))
    return [subject.candidate([index]).digest for index, item in enumerate(subject.items) if not item.is_result]


if __name__ == "__main__":
    print(*digests_of(sys.argv[1:]))
