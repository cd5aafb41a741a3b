"""Level 2: every operator of a step, executable against eager PyTorch on the inputs that it has in the eager step.

Each operator signature becomes a program of its own, so that nothing is fused with it, and every call runs through
its program. An operator that is lowered through a decomposition is compared as a whole, and so are the operators of
its decomposition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves

from ..compiler.lowering.control_flow import WHILE_LOOP, loop_graphs
from ..compiler.lowering.decompose import Decompositions
from ..compiler.lowering.inexact import Inexact
from ..compiler.lowering.options import Numerics
from ..reporting import Count
from .distance import Difference, difference
from .observed import run_observed
from .operator_walk import is_compared, is_decomposed, operator_calls, table_entry
from .programs import HostProgram, compile_graphs
from .single_operator import single_operator_graph
from .step import FedStep


@dataclass(frozen=True)
class OperatorComparison:
    """One operator signature over all its calls in a step.

    Attributes:
        operator: the overload, such as ``aten.add.Tensor``.
        signature: its arguments, tensors as dtype and shape.
        places: nodes of the graph, of decompositions and of loop bodies with this signature.
        calls: how often the step runs them.
        elements, mismatched: elements of all results, and those with any differing bit.
        max_ulps: largest distance, of the expected element or of the largest as the table says; None if a
            mismatch is no distance (integers, NaN, infinities).
        allowed_ulps: what the table of inexact operators grants; 0 if it does not list the operator, None for an
            operator that is lowered through a decomposition.
        unexplained: mismatched elements beyond the table. Those of a decomposed operator count when the operators of
            its decomposition gave eager's bits in the same call, and so did the decomposition itself.
    """

    operator: str
    signature: str
    places: int
    calls: int
    elements: int
    mismatched: int
    max_ulps: float | None
    allowed_ulps: int | None
    unexplained: int


def compare_operators(
    step: FedStep, numerics: Numerics, progress: Count = lambda done, total: None
) -> list[OperatorComparison]:
    """Compare every operator of ``step``; ``progress`` counts the programs that are compiled.

    Raises:
        LoweringError: an operator has no lowering.
        CompileError: the compiler refused a program.
    """
    decompositions = Decompositions()
    nodes: dict[Any, fx.Node] = {}
    places: Counter[Any] = Counter()
    for node in operator_calls(step.module, decompositions):
        key = decompositions.key(node)
        nodes.setdefault(key, node)
        places[key] += 1
    programs = compile_graphs(map(single_operator_graph, nodes.values()), numerics, progress)
    run = _ComparedRun(decompositions, dict(zip(nodes, programs, strict=True)))
    run.interpret(step.module, step.inputs)
    return [run.tallies[key].report(node, key[1], places[key]) for key, node in nodes.items() if run.tallies[key].calls]


class _Tally:
    """What the calls of one signature have shown so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.total = Difference()
        self.unexplained = 0

    def report(self, node: fx.Node, signature: str, places: int) -> OperatorComparison:
        entry = table_entry(node)
        exact = 0 if entry is None else entry.ulps
        return OperatorComparison(
            operator=str(node.target),
            signature=signature,
            places=places,
            calls=self.calls,
            elements=self.total.elements,
            mismatched=self.total.mismatched,
            max_ulps=self.total.ulps if math.isfinite(self.total.ulps) else None,
            allowed_ulps=None if is_decomposed(node) else exact,
            unexplained=self.unexplained,
        )


class _ComparedRun:
    """Interprets graphs in eager PyTorch and runs the program of every call beside it."""

    def __init__(self, decompositions: Decompositions, programs: Mapping[Any, HostProgram]) -> None:
        self.tallies = {key: _Tally() for key in programs}
        self._decompositions = decompositions
        self._programs = programs
        self._mismatched = 0

    def interpret(self, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[Tensor]:
        return run_observed(module, inputs, self._observe)

    def _observe(self, node: fx.Node, values: Mapping[fx.Node, Any], result: Any) -> None:
        if node.target is WHILE_LOOP:
            self._repeat(node, values)
        elif is_compared(node):
            self._compare(node, [values[source] for source in node.all_input_nodes], _tensors(result))

    def _repeat(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> None:
        condition, body = loop_graphs(node)
        bound: Any = map_aggregate(node.args[2:], lambda one: values[one] if isinstance(one, fx.Node) else one)
        carried, constants = bound
        while bool(self.interpret(condition, [*carried, *constants])[0]):
            carried = self.interpret(body, [*carried, *constants])

    def _compare(self, node: fx.Node, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
        key = self._decompositions.key(node)
        entry = table_entry(node)
        found = _difference(self._programs[key](inputs), expected, entry is not None and entry.of_largest)
        explained = self._parts_differ(node, inputs, expected) if is_decomposed(node) else _within(found, entry)
        tally = self.tallies[key]
        tally.calls += 1
        tally.total += found
        tally.unexplained += 0 if explained else found.mismatched
        self._mismatched += found.mismatched

    def _parts_differ(self, node: fx.Node, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
        """Whether an operator of the decomposition, or the decomposition in eager PyTorch, has other bits."""
        before = self._mismatched
        composed = self.interpret(self._decompositions.graph(node), [tensor.contiguous() for tensor in inputs])
        return self._mismatched > before or _difference(composed, expected).mismatched > 0


def _within(found: Difference, entry: Inexact | None) -> bool:
    return found.mismatched == 0 or (entry is not None and found.ulps <= entry.ulps)


def _difference(actual: Sequence[Tensor], expected: Sequence[Tensor], of_largest: bool = False) -> Difference:
    pairs = zip(actual, expected, strict=True)
    return sum((difference(one, other, of_largest) for one, other in pairs), Difference())


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
