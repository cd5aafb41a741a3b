"""Compile one step of models with more and more layers of the same kinds: what grows with layers, what with kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..compiler.api import compile_decode
from ..model.checkpoint.sizes import config_json
from ..model.config import ModelConfig
from ..model.kv_cache import CacheGeometry
from ..reporting import Say
from ..runtime.stats import CompileReport
from .linear_fit import LinearFit, fit_line
from .repeated_layers import repeat_layers, zero_model

BATCH_SIZE = 2
MAX_CONTEXT = 1024


@dataclass(frozen=True)
class LayerCountCost:
    """How a step of ``layers`` layers was compiled.

    ``capture_ratio`` and ``compile_ratio`` are quotients of ``report``'s seconds and those of the first layer count:
    of capture, and of all that follows it (passes, lowering and the target's compiler).
    """

    layers: int
    report: CompileReport
    capture_ratio: float
    compile_ratio: float


def time_layer_counts(size: str, layer_counts: Sequence[int], mode: str, say: Say) -> list[LayerCountCost]:
    """Compile a made-up model of ``size`` with each of the layer counts; the first is the one compared with.

    It is compiled once more before, untimed: what a process does only once is in no row.

    Raises:
        InputError: a layer count is no multiple of the layers that ``size`` has.
    """
    base = ModelConfig.from_dict(config_json(size))
    configs = [repeat_layers(base, layers) for layers in layer_counts]
    say(f"compiling {configs[0].num_hidden_layers} layers to warm up")
    _compile(configs[0], mode)
    reports = []
    for config in configs:
        say(f"compiling {config.num_hidden_layers} layers")
        reports.append(_compile(config, mode))
    return [
        LayerCountCost(
            layers=layers,
            report=report,
            capture_ratio=report.capture_s / reports[0].capture_s,
            compile_ratio=_after_capture_s(report) / _after_capture_s(reports[0]),
        )
        for layers, report in zip(layer_counts, reports, strict=True)
    ]


def fit_by_nodes(costs: Sequence[LayerCountCost]) -> dict[str, LinearFit]:
    """The lines through capture and through passes with lowering; empty for fewer than two layer counts."""
    if len(costs) < 2:
        return {}
    nodes = [cost.report.nodes for cost in costs]
    seconds = {
        "capture": [cost.report.capture_s for cost in costs],
        "passes and lowering": [cost.report.passes_s + cost.report.lowering_s for cost in costs],
    }
    return {stage: fit_line(nodes, [one * 1e3 for one in values]) for stage, values in seconds.items()}


def _compile(config: ModelConfig, mode: str) -> CompileReport:
    model = zero_model(config, CacheGeometry.for_requests(MAX_CONTEXT, BATCH_SIZE))
    (report,) = compile_decode(model, [BATCH_SIZE], mode=mode).reports
    return report


def _after_capture_s(report: CompileReport) -> float:
    return report.passes_s + report.lowering_s + report.compile_s
