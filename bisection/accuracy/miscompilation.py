"""What a bisection of a miscompilation needs besides that of a compiler's failure."""

from __future__ import annotations

from dataclasses import replace

from ...compiler.targets.command import CompilerCommand
from ...errors import InputError
from ...reporting import Say
from ..probes.prober import BudgetSpentError, Prober
from ..report.accuracy_case import AccuracyCase
from ..search.criterion import Criterion
from ..search.questions import PASSES, Questions, SubjectQuestions, Watch
from ..search.result import BisectResult
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


def wrong_part(program: Program, prober: Prober, watch: Watch, say: Say) -> Program | None:
    """The program itself if its results are wrong, and else the first region that is, on the right inputs.

    What one region does wrong can vanish in the roundings of those after it. None if neither a region nor the whole
    compiles and computes something else, or crashes while it runs.
    """
    asked = _questions(program, prober, watch)
    everything = range(len(program.subject.items))
    asked.begin("reproduce")
    try:
        if asked.fails(everything):
            return program
        found = first_difference(asked)
    except BudgetSpentError:
        return program
    if not found and asked.ending(everything) != PASSES:
        return program
    if not found:
        return None
    assert isinstance(program.subject, GraphSubject)
    group = program.subject.items[found[0]].group
    operations = [
        index for index, item in enumerate(program.subject.items) if item.group == group and not item.is_result
    ]
    candidate = program.subject.candidate(with_results(asked, operations))
    say(f"the whole program is right within its error, and {group or 'a part of it'} by itself is not: it is reduced")
    graph = reference_graph(candidate)
    groups = dict.fromkeys((node for node in graph.graph.nodes if node.op == "call_function"), group)
    subject = GraphSubject(graph, candidate.aliases, program.subject.options, groups)
    return replace(program, title=f"{program.title}, {group}" if group else program.title, subject=subject)


def with_first_wrong(result: BisectResult, program: Program, prober: Prober, watch: Watch) -> BisectResult:
    """The result with the criterion, and the first operations that are wrong on the right inputs.

    A program that crashes while it runs has neither.
    """
    if result.signature != DIFFERENT:
        return result
    result = replace(result, criterion=CRITERION)
    try:
        found = first_difference(_questions(program, prober, watch))
    except (BudgetSpentError, KeyboardInterrupt):
        return replace(result, complete=False)
    return replace(result, first_wrong=found, probes=prober.probes, known=prober.known, seconds=prober.seconds)


def accuracy_case(result: BisectResult, compiler: CompilerCommand) -> AccuracyCase | None:
    """What the minimal program is run on, and what it should return; None if its failure is another one."""
    if result.signature != DIFFERENT:
        return None
    minimal = result.minimal
    graph = reference_graph(minimal)
    inputs, expectation = prepare_run(graph)
    types = output_types(graph)
    return AccuracyCase(
        target=compiler.name,
        inputs=[one.tensor for one in inputs],
        expected=expectation.expected,
        tolerance=expectation.tolerance,
        aliases=minimal.aliases,
        runtime_zero=minimal.runtime_zero,
        returned={index: types[index].dtype for index in expectation.carried},
    )


def _questions(program: Program, prober: Prober, watch: Watch) -> SubjectQuestions:
    total = sum(not item.is_result for item in program.subject.items)
    return SubjectQuestions(program.subject, Questions(prober, Criterion(DIFFERENT), watch, total))
