"""The time of passes and of lowering against the number of nodes of a step; nothing is compiled."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..compiler.capture.capture import CapturedGraph, capture
from ..compiler.programs.region_programs import RegionPrograms
from ..compiler.regions.cut_graph import cut_graph
from ..compiler.steps.pass_captured import pass_captured
from ..compiler.targets.table import find_target
from ..model.checkpoint.sizes import config_json
from ..model.config import ModelConfig
from ..model.kv_cache import CacheGeometry
from ..reporting import Say
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


def time_lowering(graph: CapturedGraph, mode: str, rounds: int) -> LoweringTime:
    """Run the passes on copies of ``graph`` and lower them for the host, each time from nothing, ``rounds`` times."""
    once = [_time_once(graph, mode) for _ in range(rounds)]
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
        examples = {
            slot.name: torch.full((BATCH_SIZE, *slot.row_shape), slot.pad_value, dtype=slot.dtype)
            for slot in model.decode_slots
        }
        times.append(LayersTime(config.num_hidden_layers, time_lowering(capture(model, examples), mode, rounds)))
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


def _time_once(graph: CapturedGraph, mode: str) -> LoweringTime:
    target = find_target("host")
    passed = pass_captured(replace(graph, module=copy.deepcopy(graph.module)), target)
    programs = RegionPrograms(target, "fast", _NoCompilation())
    start = time.perf_counter()
    cut = cut_graph(passed.module, passed.context.aliases, passed.context.stage_names, whole=mode == "whole")
    for region in cut.regions:
        programs.program(region)
    return LoweringTime(passed.nodes, passed.passes_s * 1e3, (time.perf_counter() - start) * 1e3)


class _NoCompilation(Executor):
    """Takes the compilations and starts none."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()
