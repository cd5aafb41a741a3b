"""``dump``: the graph of a decode step, for other tools and other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, print_now
from .options import (
    DirectoryArgument,
    JsonOption,
    MaxContextOption,
    MaxRequestsOption,
    ModeOption,
    NumericsMode,
    TargetOption,
)


def dump(
    directory: DirectoryArgument,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File to write: the graph as JSON, or StableHLO text for .mlir.")
    ],
    batch_size: Annotated[int, typer.Option(min=1, help="Requests of the step.")] = 1,
    target: TargetOption = "host",
    mode: ModeOption = None,
    region: Annotated[
        str | None, typer.Option(help="A region by its name, in mode regions; an unknown name lists them.")
    ] = None,
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager PyTorch's order of operations.")] = (
        NumericsMode.fast
    ),
    max_context: MaxContextOption = 1024,
    max_requests: MaxRequestsOption = None,
    json: JsonOption = None,
) -> None:
    """Write the decode step, or a region of it, as a target's compiler would be given it; no compiler is needed."""
    with clean_errors():
        from ..compiler.steps.pipeline import count_calls
        from ..engine.decode_source import DecodeOptions
        from ..engine.dump import trace_region, write_dump

        options = DecodeOptions([batch_size], max_context, max_requests, numerics.value, mode and mode.value, target)
        saved = trace_region(directory, batch_size, options, region, print_now)
        write_dump(saved, out)
        nodes = count_calls(saved.module)
        write_report(
            json,
            {
                "file": str(out),
                "region": saved.name,
                "batch_size": batch_size,
                "target": saved.target,
                "nodes": nodes,
            },
        )
    conclude(
        True,
        f"{saved.name} of batch {batch_size} for {saved.target}, {nodes} nodes, is in {out}",
        f"deepinfer-neuron bisect {out} --target {saved.target}, if its compiler fails on it",
    )
