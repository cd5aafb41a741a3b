"""``bisect``: from a crash in a whole graph to the few operations that cause it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from ..files import write_report
from .console import ExitCode, clean_errors, conclude, print_now, print_verdict, refuse_ignored
from .options import JsonOption, MaxContextOption, ModeOption

if TYPE_CHECKING:
    from ..bisection.run import BisectRun

_SHOWN_OPERATIONS = 20
"""A larger minimal graph is not printed."""

_UNITS_S = {"s": 1, "m": 60, "h": 3600}


class MatchMode(StrEnum):
    """What of a failure has to agree with the one that is looked for."""

    signature = "signature"
    code = "code"
    any = "any"


class InputFormat(StrEnum):
    """What a command reads."""

    mlir = "mlir"
    text = "text"
    portable = "portable"
    hlo = "hlo"
    python = "python"


def bisect_graph(
    context: typer.Context,
    input: Annotated[
        Path | None,
        typer.Argument(
            help="What a failed compilation left in the store, a graph that `dump` wrote, StableHLO or an HLO proto."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="The step of this checkpoint instead of a file.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="With --model: requests of the step.")] = 1,
    region: Annotated[str | None, typer.Option(help="With --model: this region of the step alone.")] = None,
    mode: ModeOption = None,
    max_context: MaxContextOption = 1024,
    target: Annotated[
        str | None, typer.Option(help="Whose compiler is used; that of the failed compilation if omitted.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="Any compiler instead, such as 'iree-compile {input.vhlo} -o {output}'; exit code 0 is success."
        ),
    ] = None,
    format: Annotated[
        InputFormat | None,
        typer.Option(
            help="What the command reads; if omitted, as {input} ends: .mlir or nothing for StableHLO text, .mlirbc "
            "for bytecode, .vhlo for a portable artifact, .pb for an HLO proto, .py for the graph in Python."
        ),
    ] = None,
    match: Annotated[
        MatchMode, typer.Option(help="What of a failure has to agree: message and code, the code, nothing.")
    ] = (MatchMode.signature),
    repeats: Annotated[int, typer.Option(min=1, help="Runs of the whole graph before it is cut.")] = 2,
    jobs: Annotated[int, typer.Option(min=1, help="Compilers that run at once. The result is the same.")] = 1,
    budget: Annotated[
        str | None, typer.Option(help="Stop with the best so far after this: 90s, 30m, 2h, or a number of probes.")
    ] = None,
    timeout: Annotated[
        int | None, typer.Option(min=1, help="Seconds for one probe; DEEPINFER_NEURON_CC_TIMEOUT if omitted.")
    ] = None,
    memory_gb: Annotated[
        int | None, typer.Option(min=1, help="GiB for one probe; DEEPINFER_NEURON_CC_MEMORY_GB if omitted.")
    ] = None,
    simplify: Annotated[
        bool, typer.Option(help="Also look for smaller shapes, fewer inputs and inside kernels.")
    ] = True,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one", help="Also compile each operation of the failing regions alone, and list them all."
        ),
    ] = False,
    accuracy: Annotated[
        bool,
        typer.Option("--accuracy", help="Look for what compiles and computes something else: run it and compare."),
    ] = False,
    passes: Annotated[
        bool, typer.Option("--passes", help="With --model: also find the pass that introduces the failure.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Report, graphs, script and memo of verdicts.")] = Path(
        "bisect"
    ),
    json: JsonOption = None,
) -> None:
    """Cut a graph that a compiler fails on down to the few operations that make it fail.

    The same command goes on where an earlier one was stopped. Exits with 0 if the minimal graph fails again by itself
    in a new process, or if --accuracy finds nothing wrong; with 1 if it does not fail again; with the best so far, with
    3 when the budget is spent and with 130 after Ctrl-C.
    """
    _refuse_ignored(context, model is not None, command is not None, accuracy)
    with clean_errors("interrupted: the same command goes on from what is known"):
        from ..bisection.probes.probe_runner import Budget
        from ..bisection.run import BisectRequest, CompilerChoice, Effort, ModelStep, NothingWrong, run_bisect
        from ..bisection.search.options import SearchOptions
        from ..compiler.targets.process import ProcessLimits
        from ..engine.decode_source import DecodeOptions
        from .bisect_progress import watch_bisection

        options = DecodeOptions((batch_size,), max_context, mode=mode and mode.value, target=target)
        what = input or (model and ModelStep(model, batch_size, region, options))
        if what is None or (input and model):
            raise ConfigError("give either a file with what is to be cut, or --model with a checkpoint's directory")
        limits = ProcessLimits(timeout, memory_gb and memory_gb << 30)
        request = BisectRequest(
            what=what,
            out=out,
            compiler=CompilerChoice(target, command, None if format is None else format.value),
            search=SearchOptions(match.value, repeats, simplify, one_by_one),
            effort=Effort(jobs, Budget(*parse_budget(budget)), limits),
            accuracy=accuracy,
            passes=passes,
        )
        with watch_bisection() as watch:
            run = run_bisect(request, print_now, watch)
        write_report(json, run.to_json())
        if isinstance(run, NothingWrong):
            print(f"{run.title}: neither the whole program nor a region on the right inputs is wrong")
            print(f"wrong would be: {run.criterion}")
            conclude(True, "nothing computes anything else than it should", "try another batch size or target")
            return
        print_result(run)
    _conclude(run)


def _refuse_ignored(context: typer.Context, with_model: bool, with_command: bool, accuracy: bool) -> None:
    of_a_step = ("batch_size", "region", "mode", "max_context", "passes")
    if not with_model:
        refuse_ignored(context, of_a_step, "a file is what it is; give the checkpoint of a step as --model")
    if with_command and not with_model:
        refuse_ignored(context, ("target",), "--command is the compiler")
    if not with_command:
        refuse_ignored(context, ("format",), "a target has a format of its own; it is about --command")
    if accuracy:
        refuse_ignored(context, ("simplify",), "with --accuracy other shapes would need other values")
        refuse_ignored(context, ("max_context",), "with --accuracy caches are as large as the golden prompts need")


def _conclude(run: BisectRun) -> None:
    result, directory = run.result, run.written.directory
    reduction = result.reduction
    found = f"{reduction.operations} operations are cut to {reduction.minimal.size} that fail in the same way"
    if not result.complete:
        code = ExitCode.INTERRUPTED if result.interrupted else ExitCode.BUDGET_SPENT
        print_verdict(f"{found}, stopped early with the best so far", "the same command goes on from there", code)
        raise typer.Exit(code)
    report = directory / "report.md"
    if run.is_reproduced:
        conclude(True, f"{found}, and again in a new process", f"send {report} and repro.py beside it")
    else:
        conclude(False, f"{found}, but not again in a new process", f"read {report}, then run repro.py beside it")


def print_result(run: BisectRun) -> None:
    """What was kept of the program, the minimal graph and where the rest is."""
    from ..bisection.report.facts import duration, first_wrong
    from ..bisection.subjects.graph_text import graph_text

    result, written = run.result, run.written
    failure, reduction, evidence, cost = result.failure, result.reduction, result.evidence, result.cost
    print(
        f"{failure.signature}\nfailed in {failure.first} runs of the whole program, {failure.last} of the minimal one"
    )
    for item in reduction.kept_items:
        print(f"  {item.text}{f'  # {item.line}' if item.line else ''}")
    minimal = reduction.minimal
    print(f"{reduction.operations} operations -> {minimal.size}, {cost.probes} probes, {duration(cost.seconds)}")
    if minimal.graph is not None and minimal.size <= _SHOWN_OPERATIONS:
        print(graph_text(minimal.graph, minimal.aliases))
    if result.miscompilation.criterion:
        print(f"wrong if {result.miscompilation.criterion}\nfirst wrong: {first_wrong(result)}")
    if evidence.introduced_by:
        print(f"introduced by {evidence.introduced_by}")
    for other in evidence.others:
        print(f"also seen, {other.times} times, in {other.candidate.size} operations: {other.signature}")
    meaning = "was not run" if written.run is None else written.run.meaning
    print(f"{written.directory}: report.html, report.md, repro.py ({meaning})")


def parse_budget(text: str | None) -> tuple[float | None, int | None]:
    """Seconds and probes that a text such as ``30m`` or ``200`` allows; raises BadParameter."""
    if text is None:
        return None, None
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if match is None:
        raise typer.BadParameter(
            f"{text!r}: expected 90s, 30m, 2h, or a number of probes such as 200", param_hint="--budget"
        )
    number, unit = int(match[1]), match[2]
    return (float(number * _UNITS_S[unit]), None) if unit else (None, number)
