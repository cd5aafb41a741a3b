"""``compile``: the decode step of a checkpoint, ahead of time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from .console import INTERRUPTED, clean_errors, parse_sizes, print_now, print_table
from .options import GraphMode, JsonOption, ModeOption, NumericsMode, StoreOption, TargetOption

if TYPE_CHECKING:
    from ..engine.ahead_of_time import CompileResult
    from ..runtime.store.store import ArtifactStore


def compile_step(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")],
    batch_sizes: Annotated[str, typer.Option(help="Batch sizes to compile, separated by commas.")] = "1,2,4,8",
    mode: ModeOption = None,
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager PyTorch's order of operations.")] = (
        NumericsMode.fast
    ),
    target: TargetOption = None,
    context: Annotated[int, typer.Option(min=1, help="Tokens that a request can hold.")] = 1024,
    requests: Annotated[
        int | None, typer.Option(min=1, help="Requests served at once; as many as the largest batch if omitted.")
    ] = None,
    store: StoreOption = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Compile in this process and keep nothing.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that compile; as many as processors if omitted.")
    ] = None,
    assert_hit: Annotated[
        bool, typer.Option("--assert-hit", help="Compile nothing: fail if a program is not stored, and say why.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print passes, regions and programs, and draw the regions.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the regions here: .html for every batch size, .svg for the largest. "
            "With --explain DIRECTORY/regions.html if omitted.",
        ),
    ] = None,
    preflight: Annotated[
        bool,
        typer.Option(
            "--preflight",
            help="Compile nothing: list what the target's compiler would refuse, and exit with 1 if there is any.",
        ),
    ] = False,
    histogram: Annotated[
        bool,
        typer.Option(
            "--histogram", help="As --preflight, and print the operations of the lowered step with their element types."
        ),
    ] = False,
    rules: Annotated[
        bool, typer.Option("--rules", help="With --preflight: also list what is checked, and what just passes.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Compile the decode step into the store, from which it is loaded without compiling, and say what it is made of.

    One program that fails does not stop the others; the exit code is 1 then. After Ctrl-C, which exits with 130, the
    next run goes on from what was stored.
    """
    if preflight or histogram:
        _preflight(directory, batch_sizes, target, mode, context, histogram, rules, json)
        return
    if rules:
        raise typer.BadParameter("goes with --preflight", param_hint="--rules")
    with clean_errors():
        from ..compiler.workers.programs import failed
        from ..engine.ahead_of_time import run_compile
        from ..engine.decode_source import DecodeOptions
        from ..explain.page import check_picture_path
        from .compile_progress import program_table, show_programs

        path = picture or (directory / "regions.html" if explain else None)
        if path is not None:
            check_picture_path(path)
        sizes = parse_sizes(batch_sizes)
        options = DecodeOptions(sizes, context, requests, numerics.value, mode and mode.value, target)
        opened = _open(store, no_store)
        if opened is None and not no_store:
            print("no store, so nothing is kept: give --store DIRECTORY or set DEEPINFER_NEURON_CACHE")
        try:
            with show_programs() as watch:
                result = run_compile(directory, options, opened, jobs, assert_hit, print_now, watch)
        except KeyboardInterrupt:
            print("interrupted: the same command goes on from what is stored", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        if result.store is not None:
            print_table(*program_table(result.store, result.programs))
        failures = failed(result.programs)
        for program in failures:
            print(f"error: {program.title}: {program.error}", file=sys.stderr)
        if result.steps:
            _show_steps(result, explain, path)
        write_report(json, result)
    if failures:
        raise typer.Exit(1)


def _open(directory: Path | None, no_store: bool) -> ArtifactStore | None:
    from ..runtime.store.default import default_store
    from ..runtime.store.store import ArtifactStore

    if no_store:
        return None
    return ArtifactStore(directory) if directory else default_store()


def _show_steps(result: CompileResult, explain: bool, path: Path | None) -> None:
    from ..explain.page import write_picture
    from ..explain.tables import step_tables, summary_table

    for table in [table for step in result.steps if explain for table in step_tables(step)]:
        print_table(table.title, table.columns, table.rows)
    summary = summary_table(result.steps)
    print_table(summary.title, summary.columns, summary.rows)
    if path is not None:
        write_picture(path, result.steps)
        print(f"{path}: the regions as a picture")


def _preflight(
    directory: Path,
    batch_sizes: str,
    target: str | None,
    mode: GraphMode | None,
    tokens: int,
    histogram: bool,
    rules: bool,
    json: Path | None,
) -> None:
    with clean_errors():
        from ..preflight.run import run_preflight
        from .preflight_tables import findings_table, histogram_tables, rules_table

        report = run_preflight(directory, parse_sizes(batch_sizes), target, mode and mode.value, tokens, print_now)
        for table in histogram_tables(report) if histogram else ():
            print_table(*table)
        if rules:
            print_table(*rules_table(report.target))
        title, columns, rows = findings_table(report)
        if rows:
            print_table(title, columns, rows)
        else:
            print(title)
        write_report(json, report)
    if not report.passed:
        raise typer.Exit(1)
