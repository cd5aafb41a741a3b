"""The graph of a checkpoint's decode step, as a target's compiler would be given it."""

from __future__ import annotations

from pathlib import Path

from ..compiler.graphs.graph_file import SavedGraph, save_graph
from ..compiler.lowering.lower import lower_graph
from ..compiler.regions.cut import Region
from ..compiler.steps.decode_steps import decode_step
from ..compiler.steps.pipeline import check_graph_mode, check_numerics
from ..compiler.targets.table import find_target
from ..errors import ConfigError
from ..files import write_text
from ..model.checkpoint.loader import open_checkpoint
from ..reporting import Say
from ..settings import settings
from .decode_source import DecodeOptions, DecodeSource

MLIR = ".mlir"
"""Ending of a file that gets the StableHLO text instead of the graph."""


def trace_region(
    directory: Path,
    batch_size: int,
    options: DecodeOptions,
    region: str | None = None,
    say: Say = lambda line: None,
    pass_limit: int | None = None,
) -> SavedGraph:
    """The step that a checkpoint is compiled to for one batch size alone, or a region of it; no compiler is needed.

    Args:
        batch_size: requests of the step.
        options: whose target, mode, numerics and caches count.
        region: its name; mode "regions" is the default then.
        pass_limit: run so many of the passes that are not required; None for as many as the environment says.

    Raises:
        CheckpointError: a damaged checkpoint.
        ConfigError: an unknown target, numerics or mode, or no such region; the message lists those there are.
        CaptureError: the step is not one static graph.
        GraphError: the graph breaks an invariant of the lowering.
    """
    mode = check_graph_mode(options.mode or ("regions" if region else settings().graph_mode))
    numerics = check_numerics(options.numerics)
    with open_checkpoint(directory) as checkpoint:
        source = DecodeSource(checkpoint, options)
        target = find_target(source.target)
        target.lowering_options(numerics)
        say("loading the decode model")
        regions = decode_step(source.model, batch_size, target, mode, pass_limit=pass_limit).cut.regions
    chosen = choose_region(regions, region)
    return SavedGraph(chosen.module, chosen.aliases, target.name, chosen.stage_names, numerics, chosen.name)


def write_dump(saved: SavedGraph, path: Path) -> None:
    """Write a graph, or its StableHLO with the model's lines if the name ends with ``.mlir``, whole or not at all.

    Raises:
        LoweringError: an operator has no lowering.
        OSError: the file cannot be written.
    """
    if path.suffix == MLIR:
        options = find_target(saved.target).lowering_options(saved.numerics)
        write_text(path, lower_graph(saved.module, options, saved.aliases).text(locations=True))
    else:
        save_graph(path, saved)


def choose_region(regions: tuple[Region, ...], name: str | None) -> Region:
    """The region of that name, or the only one; raises ConfigError listing those there are."""
    if name is None and len(regions) == 1:
        return regions[0]
    for region in regions:
        if region.name == name:
            return region
    asked = "which region?" if name is None else f"no region {name!r}:"
    raise ConfigError(f"{asked} name one of these as --region: {', '.join(region.name for region in regions)}")
