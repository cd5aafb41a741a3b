"""The time of passes and of lowering against the number of nodes of a step; nothing is compiled."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..compiler.programs.region_programs import RegionPrograms
from ..compiler.steps.captured_step import CapturedStep, capture_step
from ..compiler.steps.decode_steps import DecodeStep, decode_steps
from ..compiler.steps.pipeline import check_graph_mode
from ..compiler.targets.table import find_target
from ..model.checkpoint.sizes import config_json
from ..model.config import ModelConfig
from ..model.kv_cache import CacheGeometry
from ..reporting import Say
from ..runtime.plan import GraphMode
from .linear_fit import LinearFit, fit_line
from .repeated_layers import repeat_layers, zero_model

BATCH_SIZE = 2
MAX_CONTEXT = 1024


@dataclass(frozen=True)
class LoweringTime:
    """The shortest of several times for one captured graph of ``nodes`` operator calls.

    Lowering runs from the passed graph to the modules that a compiler gets: the cut, the comparison of regions, and
    every kernel's decomposition.
    """

    nodes: int
    passes_ms: float
    lowering_ms: float

    @property
    def ms_per_1000_nodes(self) -> float:
        """Both together."""
        return (self.passes_ms + self.lowering_ms) / self.nodes * 1e3


@dataclass(frozen=True)
class LayersTime:
    """A model with ``layers`` layers and the times of its step."""

    layers: int
    step: LoweringTime


def time_lowering(model: nn.Module, mode: GraphMode, rounds: int) -> LoweringTime:
    """Capture the model's step once, run the passes and lower it for the host ``rounds`` times, each from nothing."""
    captured = capture_step(model, BATCH_SIZE)
    once = [_time_once(model, captured, mode) for _ in range(rounds)]
    return LoweringTime(
        nodes=once[0].nodes,
        passes_ms=min(one.passes_ms for one in once),
        lowering_ms=min(one.lowering_ms for one in once),
    )


def time_lowering_of_layers(
    size: str, layer_counts: Sequence[int], mode: str, rounds: int, say: Say
) -> list[LayersTime]:
    """Time steps of a made-up model of ``size`` with each of the layer counts.

    Raises:
        InputError: a layer count is no multiple of the layers that ``size`` has.
    """
    base = ModelConfig.from_dict(config_json(size))
    times = []
    for config in [repeat_layers(base, layers) for layers in layer_counts]:
        say(f"capturing {config.num_hidden_layers} layers")
        model = zero_model(config, CacheGeometry.for_requests(MAX_CONTEXT, BATCH_SIZE))
        times.append(LayersTime(config.num_hidden_layers, time_lowering(model, check_graph_mode(mode), rounds)))
    return times


def fit_lowering(times: Sequence[LayersTime]) -> dict[str, LinearFit]:
    """The lines through passes, lowering and both; empty for fewer than two layer counts."""
    if len(times) < 2:
        return {}
    nodes = [one.step.nodes for one in times]
    passes = [one.step.passes_ms for one in times]
    lowering = [one.step.lowering_ms for one in times]
    both = [sum(pair) for pair in zip(passes, lowering, strict=True)]
    return {
        "passes": fit_line(nodes, passes),
        "lowering": fit_line(nodes, lowering),
        "passes and lowering": fit_line(nodes, both),
    }


def _time_once(model: nn.Module, captured: CapturedStep, mode: GraphMode) -> LoweringTime:
    target = find_target("host")
    programs = RegionPrograms(target, "fast", _NoCompilation())

    def lower(step: DecodeStep) -> None:
        for region in step.cut.regions:
            programs.program(region)

    graph = replace(captured.graph, module=copy.deepcopy(captured.graph.module))
    copied = replace(captured, graph=graph)
    start = time.perf_counter()
    (step,) = decode_steps(model, [BATCH_SIZE], target, mode, take=lower, captured=lambda model, size: copied)
    seconds = time.perf_counter() - start
    return LoweringTime(step.passed.nodes, step.passed.passes_s * 1e3, (seconds - step.passed.passes_s) * 1e3)


class _NoCompilation(Executor):
    """Takes the compilations and starts none."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()
