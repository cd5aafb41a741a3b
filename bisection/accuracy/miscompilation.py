"""What a bisection of a miscompilation needs besides that of a compiler's failure."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InputError
from ...reporting import Say
from ..probes.probe_runner import BudgetSpentError, ProbeRunner
from ..report.accuracy_case import AccuracyCase
from ..search.interestingness import Interestingness
from ..search.oracle import COMPILES, Oracle, SubsetOracle
from ..search.progress import OnProgress
from ..search.result import BisectResult, Miscompilation
from ..subjects.graph_subject import GraphSubject
from ..subjects.program import Program
from ..subjects.values import record_values, set_inputs
from .accuracy_probe import DIFFERENT, output_types, prepare_run, reference_graph
from .drawn_values import draw_inputs
from .expectation import CRITERION
from .first_difference import first_difference, with_results


def with_drawn_values(program: Program) -> Program:
    """A program from a file, with values from a seeded generator in its graph.

    Raises:
        InputError: it is a StableHLO module, of which nobody knows what it should compute, or eager PyTorch runs it on
            nothing that was drawn.
    """
    subject = program.subject
    if not isinstance(subject, GraphSubject):
        raise InputError(
            f"{program.title}: what a StableHLO module should compute is not known; give the graph instead"
        )
    set_inputs(subject.module, draw_inputs(subject.module))
    record_values(subject.module)
    return replace(program, title=f"{program.title}, drawn inputs")


def wrong_part(program: Program, runner: ProbeRunner, on_progress: OnProgress, say: Say) -> Program | None:
    """The program itself if its results are wrong, and else the first region that is, on the right inputs.

    What one region does wrong can vanish in the roundings of those after it. None if neither a region nor the whole
    compiles and computes something else, or crashes while it runs.
    """
    oracle = _oracle(program, runner, on_progress)
    everything = range(len(program.subject.items))
    oracle.begin("reproduce")
    try:
        if oracle.fails(everything):
            return program
        found = first_difference(oracle)
    except BudgetSpentError:
        return program
    if not found and oracle.ending(everything) != COMPILES:
        return program
    if not found:
        return None
    assert isinstance(program.subject, GraphSubject)
    group = program.subject.items[found[0]].group
    operations = [
        index for index, item in enumerate(program.subject.items) if item.group == group and not item.is_result
    ]
    candidate = program.subject.candidate(with_results(oracle, operations))
    say(f"the whole program is right within its error, and {group or 'a part of it'} by itself is not: it is reduced")
    graph = reference_graph(candidate)
    groups = dict.fromkeys((node for node in graph.graph.nodes if node.op == "call_function"), group)
    subject = GraphSubject(graph, candidate.aliases, program.subject.options, groups)
    return replace(program, title=f"{program.title}, {group}" if group else program.title, subject=subject)


def with_first_wrong(
    result: BisectResult, program: Program, runner: ProbeRunner, on_progress: OnProgress
) -> BisectResult:
    """The result with the criterion, and the first operations that are wrong on the right inputs.

    A program that crashes while it runs has neither.
    """
    if result.failure.signature != DIFFERENT:
        return result
    try:
        found = first_difference(_oracle(program, runner, on_progress))
    except (BudgetSpentError, KeyboardInterrupt):
        return replace(result, miscompilation=Miscompilation(CRITERION), complete=False)
    return replace(result, miscompilation=Miscompilation(CRITERION, found), cost=result.cost.up_to_now(runner))


def accuracy_case(result: BisectResult) -> AccuracyCase | None:
    """What the minimal program is run on, and what it should return; None if its failure is another one."""
    if result.failure.signature != DIFFERENT:
        return None
    minimal = result.reduction.minimal
    graph = reference_graph(minimal)
    inputs, expectation = prepare_run(graph)
    types = output_types(graph)
    return AccuracyCase(
        target=result.compiler.name,
        inputs=[one.tensor for one in inputs],
        expected=expectation.expected,
        tolerance=expectation.tolerance,
        aliases=minimal.aliases,
        runtime_zero=minimal.runtime_zero,
        returned={index: types[index].dtype for index in expectation.carried},
    )


def _oracle(program: Program, runner: ProbeRunner, on_progress: OnProgress) -> SubsetOracle:
    total = sum(not item.is_result for item in program.subject.items)
    return SubsetOracle(program.subject, Oracle(runner, Interestingness(DIFFERENT), on_progress, total))
