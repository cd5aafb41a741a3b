"""PyTorch's own minifier on the graphs that a bisection starts from, for comparison.

It is given the best it can use: the caller says which failures count and guards against hangs and crashes, tensors have
no values (it needs the intermediates of a run, and failures to compile depend on types alone), and graphs that cannot
be lowered count as good. Source: torch/_functorch/fx_minifier.py.
"""

from __future__ import annotations

import contextlib
import copy
import io
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch.fx_minifier import minifier
from torch._subclasses.fake_tensor import FakeTensorMode

from ..bisection.subjects.subject import Candidate
from ..compiler.lowering.decompose import Decompositions
from ..compiler.lowering.lower import lower_graph
from ..compiler.lowering.options import LoweringOptions
from ..errors import LoweringError
from ..passes.context import placeholders


@dataclass(frozen=True)
class MinifierRun:
    """What the minifier made of one failing graph.

    Attributes:
        operators: of the graph that it started from.
        left: operators of the smallest failing graph that it asked about.
        smallest: that graph; None if it asked about no failing one.
        probes: runs of the compiler.
        not_lowered: graphs that it asked about and that cannot be lowered, such as those that return a tuple.
        ended: how it ended.
        seconds: that it took.
    """

    operators: int
    left: int
    smallest: fx.GraphModule | None
    probes: int
    not_lowered: int
    ended: str
    seconds: float


class _TooManyProbesError(Exception):
    """Ends the minifier, which has no limit of its own."""


class _Failures:
    """Answers the minifier's questions, and keeps the smallest graph that failed."""

    def __init__(self, options: LoweringOptions, fails: Callable[[Candidate], bool], most_probes: int):
        self.probes = 0
        self.not_lowered = 0
        self.smallest: fx.GraphModule | None = None
        self._options = options
        self._decompositions = Decompositions(options)
        self._fails = fails
        self._most_probes = most_probes

    def __call__(self, module: fx.GraphModule, inputs: object) -> bool:
        try:
            lowered = lower_graph(module, self._options, decompositions=self._decompositions)
        except LoweringError:
            self.not_lowered += 1
            return False
        if self.probes == self._most_probes:
            raise _TooManyProbesError(f"stopped after {self._most_probes} probes")
        self.probes += 1
        count = count_operators(module)
        if not self._fails(Candidate(count, lowered.bytecode, module)):
            return False
        if self.smallest is None or count < count_operators(self.smallest):
            self.smallest = module
        return True


def run_minifier(
    module: fx.GraphModule, options: LoweringOptions, fails: Callable[[Candidate], bool], most_probes: int
) -> MinifierRun:
    """Give a graph after the passes to the minifier.

    Args:
        module: it is not changed.
        options: how its candidates are lowered.
        fails: whether the compiler fails on a candidate in the wanted way.
        most_probes: after which it is stopped.
    """
    start = time.perf_counter()
    asked = _Failures(options, fails, most_probes)
    ended = "finished"
    # What it prints is a page for each question. Constants have values.
    with contextlib.redirect_stderr(io.StringIO()), FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [_empty_like(node.meta["val"]) for node in placeholders(module)]
        try:
            minifier(copy.deepcopy(module), inputs, asked, lambda module, inputs: None)
        except Exception as error:
            (first, *_) = str(error).splitlines() or [""]
            ended = first if isinstance(error, _TooManyProbesError) else f"{type(error).__name__}: {first}"
    whole = count_operators(module)
    return MinifierRun(
        operators=whole,
        left=whole if asked.smallest is None else count_operators(asked.smallest),
        smallest=asked.smallest,
        probes=asked.probes,
        not_lowered=asked.not_lowered,
        ended=ended,
        seconds=time.perf_counter() - start,
    )


def _empty_like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def count_operators(module: fx.GraphModule) -> int:
    """The calls of a graph, without the parts of tuples."""
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    return sum(node.target is not operator.getitem for node in calls)
