"""``compile``: the decode step of a checkpoint, ahead of time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, parse_sizes, print_now, print_table, refuse_ignored
from .options import (
    BatchSizesOption,
    DirectoryArgument,
    JsonOption,
    MaxContextOption,
    MaxRequestsOption,
    ModeOption,
    NumericsMode,
    StoreOption,
    TargetOption,
)

if TYPE_CHECKING:
    from ..engine.ahead_of_time import CompileResult
    from ..runtime.store.store import ArtifactStore


def compile_step(
    context: typer.Context,
    directory: DirectoryArgument,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    mode: ModeOption = None,
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager PyTorch's order of operations.")] = (
        NumericsMode.fast
    ),
    target: TargetOption = None,
    max_context: MaxContextOption = 1024,
    max_requests: MaxRequestsOption = None,
    store: StoreOption = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Compile in this process and keep nothing.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Programs compiled at once; as many as processors if omitted.")
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
    json: JsonOption = None,
) -> None:
    """Compile the decode step into the store, from which it is loaded without compiling, and say what it is made of.

    One program that fails does not stop the others; the exit code is 1 then. After Ctrl-C, which exits with 130, the
    next run goes on from what was stored.
    """
    if no_store:
        refuse_ignored(context, ("store", "assert_hit"), "--no-store looks nothing up and keeps nothing")
        refuse_ignored(context, ("jobs",), "with --no-store this process compiles by itself")
    if assert_hit:
        refuse_ignored(context, ("jobs",), "--assert-hit compiles nothing")
    with clean_errors("interrupted: the same command goes on from what is stored"):
        from ..compiler.programs.stored_programs import failed
        from ..engine.ahead_of_time import run_compile
        from ..engine.decode_source import DecodeOptions
        from ..explain.page import check_picture_path
        from .compile_progress import program_table, show_programs

        path = picture or (directory / "regions.html" if explain else None)
        if path is not None:
            check_picture_path(path)
        sizes = parse_sizes(batch_sizes)
        options = DecodeOptions(sizes, max_context, max_requests, numerics.value, mode and mode.value, target)
        opened = _open(store, no_store)
        if opened is None and jobs is not None:
            refuse_ignored(context, ("jobs",), "without a store (--store, DEEPINFER_NEURON_CACHE) one process compiles")
        with show_programs() as watch:
            result = run_compile(directory, options, opened, jobs, assert_hit, print_now, watch)
        if result.store is not None:
            print_table(program_table(result.store, result.programs))
        failures = failed(result.programs)
        for program in failures:
            print(f"error: {program.title}: {program.error}", file=sys.stderr)
        if result.steps:
            _show_steps(result, explain, path)
        write_report(json, result)
    _conclude(directory, sizes, result, len(failures), assert_hit)


def _conclude(directory: Path, sizes: list[int], result: CompileResult, failures: int, assert_hit: bool) -> None:
    step = f"the step of {directory} for batch sizes {', '.join(map(str, sizes))}"
    if failures:
        without = "the same command without --assert-hit compiles them"
        bisect = "deepinfer-neuron bisect, of what the last line of an error names"
        count = f"{failures} of the {len(result.programs)} programs of {step}"
        conclude(False, f"{count} {'are not stored' if assert_hit else 'failed'}", without if assert_hit else bisect)
    elif result.store is None:
        conclude(True, f"{step} compiles; nothing was kept", "the same command with --store DIRECTORY keeps it")
    else:
        start = f"load_decode({str(directory)!r}, store={result.store!r}, batch_sizes={sizes})"
        conclude(True, f"{step} is in {result.store}, {len(result.programs)} programs", f"{start} starts from it")


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
        print_table(table)
    print_table(summary_table(result.steps))
    if path is not None:
        write_picture(path, result.steps)
        print(f"{path}: the regions as a picture")
