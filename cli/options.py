"""Options that several commands take, and the choices they offer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DirectoryArgument = Annotated[Path, typer.Argument(help="A checkpoint directory.")]

JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON.")]

TargetOption = Annotated[
    str | None,
    typer.Option(help="Whose compiler and fp8 range are used. Default: that of DEEPINFER_NEURON_DEVICE."),
]

BatchSizesOption = Annotated[str, typer.Option("--batch-sizes", help="Batch sizes, separated by commas.")]

MaxContextOption = Annotated[int, typer.Option(min=1, help="Tokens that a request can hold.")]

MaxRequestsOption = Annotated[
    int | None, typer.Option(min=1, help="Requests served at once; as many as the largest batch if omitted.")
]

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIRECTORY", help="The store; that of DEEPINFER_NEURON_CACHE if omitted."),
]


class Size(StrEnum):
    """Sizes of a made-up checkpoint."""

    tiny = "tiny"
    nano = "nano"


class Dtype(StrEnum):
    """Types of weights and activations."""

    bf16 = "bf16"
    fp32 = "fp32"


class Switch(StrEnum):
    """A rounding step that is taken or left out."""

    on = "on"
    off = "off"


class Fp8Max(StrEnum):
    """Ranges of fp8 values: the OCP format's, that of Trainium 1 and 2, and what is quantised to there."""

    ocp = "448"
    trainium = "240"
    half = "224"


class NumericsMode(StrEnum):
    """How a graph is lowered."""

    exact = "exact"
    fast = "fast"


class GraphMode(StrEnum):
    """How a step is compiled."""

    whole = "whole"
    regions = "regions"


ModeOption = Annotated[
    GraphMode | None,
    typer.Option(
        help="whole: one program for a step. regions: one for each kind of stage. "
        "Default: DEEPINFER_NEURON_GRAPH_MODE, else whole."
    ),
]


class EngineMode(StrEnum):
    """How a step is run: by the model itself, or compiled."""

    eager = "eager"
    regions = "regions"
    whole = "whole"
