"""From a captured aten graph to a compiled program: passes, lowering, target."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import fx

from ...errors import ConfigError
from ...passes.context import PassContext
from ...passes.interval import Interval
from ...passes.observer import AfterPass, PassRecord
from ...passes.pipeline import run_passes
from ...runtime.plan import GraphMode
from ...settings import settings
from ..lowering.complex_parts import split_complex
from ..lowering.higher_order import inline_higher_order
from ..lowering.lower import LoweredModule, lower_graph
from ..lowering.options import Numerics
from ..targets.base import Target


class NamedTarget(Protocol):
    """What passes look facts up by."""

    @property
    def name(self) -> str:
        """A name in ``passes.target_facts``."""
        ...


@dataclass(frozen=True)
class PassedGraph:
    """A graph after all passes, what they left beside it, and how long they took."""

    module: fx.GraphModule
    context: PassContext
    passes: tuple[PassRecord, ...]
    passes_s: float
    nodes: int


@dataclass(frozen=True)
class ShapedGraph:
    """A lowered graph ready for its target, and how long the way there took.

    ``carriers`` maps an input index to the dtype that the program takes instead of the tensor's own.
    """

    lowered: LoweredModule
    carriers: Mapping[int, torch.dtype]
    passes: tuple[PassRecord, ...]
    passes_s: float
    lowering_s: float
    nodes: int


def check_numerics(numerics: str) -> Numerics:
    """``numerics`` if it is a mode of the lowering; raises ConfigError otherwise."""
    if numerics == "fast" or numerics == "exact":
        return numerics
    raise ConfigError(f"unknown numerics {numerics!r}: expected 'fast' or 'exact'")


def check_graph_mode(mode: str) -> GraphMode:
    """``mode`` if a step can be compiled that way; raises ConfigError otherwise."""
    if mode == "whole" or mode == "regions":
        return mode
    raise ConfigError(f"unknown graph mode {mode!r}: expected 'whole' or 'regions'")


def pass_graph(
    module: fx.GraphModule,
    target: NamedTarget,
    input_keys: Sequence[Hashable] = (),
    holds_bfloat16: Callable[[int], bool] = lambda position: False,
    is_weight: Callable[[int], bool] = lambda position: False,
    value_range: Callable[[int], Interval | None] = lambda position: None,
    after_pass: AfterPass = lambda record, module, context: None,
    limit: int | None = None,
) -> PassedGraph:
    """Run the passes on ``module`` in place.

    Args:
        input_keys: one key per placeholder, equal for the same memory seen the same way; empty if unknown.
        holds_bfloat16: whether every value of a float32 input, asked by index, is a bfloat16 value.
        is_weight: whether an input, asked by index, can be arranged anew when it is loaded.
        value_range: the range of an integer input, asked by index; None if it is not known.
        after_pass: called with the graph as each pass left it.
        limit: run so many of the passes that are not required; None for as many as the environment says.

    Raises:
        GraphError: the graph breaks an invariant of the lowering.
    """
    context = PassContext(
        target=target.name,
        input_keys=input_keys,
        holds_bfloat16=holds_bfloat16,
        is_weight=is_weight,
        value_range=value_range,
    )
    start = time.perf_counter()
    asked = settings()
    limit = asked.pass_limit if limit is None else limit
    records = run_passes(module, context, limit=limit, dump_directory=asked.dump_directory, after_pass=after_pass)
    return PassedGraph(
        module=module,
        context=context,
        passes=records,
        passes_s=time.perf_counter() - start,
        nodes=count_calls(module),
    )


def count_calls(module: fx.GraphModule) -> int:
    """How many operators a graph calls."""
    return sum(node.op == "call_function" for node in module.graph.nodes)


def shape_graph(module: fx.GraphModule, target: Target, numerics: Numerics) -> ShapedGraph:
    """Run the passes on ``module`` in place and lower it, as one program, for ``target``.

    Raises:
        GraphError: the graph breaks an invariant of the lowering.
        LoweringError: an operator has no lowering.
    """
    inline_higher_order(module)
    split_complex(module)
    passed = pass_graph(module, target)
    start = time.perf_counter()
    lowered = lower_graph(module, target.lowering_options(numerics), passed.context.aliases)
    return ShapedGraph(
        lowered=lowered,
        carriers=passed.context.carriers,
        passes=passed.passes,
        passes_s=passed.passes_s,
        lowering_s=time.perf_counter() - start,
        nodes=passed.nodes,
    )
