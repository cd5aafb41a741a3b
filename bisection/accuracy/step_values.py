"""The graph of a checkpoint's decode step with the values that it has in a real run."""

from __future__ import annotations

from itertools import cycle, islice, takewhile
from pathlib import Path

from torch import Tensor

from ...compiler.graphs.graph_file import SavedGraph
from ...compiler.regions.cut import CutGraph, Region
from ...compiler.steps.decode_steps import decode_step
from ...compiler.steps.pipeline import check_graph_mode, check_numerics
from ...compiler.targets.table import find_target
from ...engine.decode_source import DecodeOptions
from ...engine.dump import choose_region
from ...model.accuracy.golden_pool import golden_of, make_pool
from ...model.accuracy.teacher_forced import add_prompts, golden_inputs
from ...model.checkpoint.loader import open_checkpoint
from ...reporting import Say
from ...settings import settings
from ...verification.step_memory import StepMemory
from ..subjects.step_tracer import StepTracer
from ..subjects.values import record_values, set_inputs


def step_with_values(
    directory: Path,
    batch_size: int,
    target: str,
    options: DecodeOptions,
    region: str | None = None,
    say: Say = lambda line: None,
) -> StepTracer:
    """Prefill the golden prompts of a checkpoint, longest first, and trace the step after them.

    Every node of the graph has its value, see ``bisection.subjects.values``: real weights, caches as the prompts left
    them, golden tokens. Golden values are made beside the checkpoint if they are absent.

    Args:
        batch_size: requests of the step; prompts are repeated if there are fewer.
        target: whose passes run.
        options: whose mode and numerics count.
        region: its name, for the graph and the values of that region alone.

    Raises:
        CheckpointError, ArtifactError: a damaged checkpoint or golden file.
        ConfigError: an unknown target, numerics or mode, or no such region; the message lists those there are.
        CaptureError, GraphError: the step cannot be compiled.
    """
    mode = check_graph_mode(options.mode or ("regions" if region else settings().graph_mode))
    numerics = check_numerics(options.numerics)
    found = find_target(target)
    checkpoint = open_checkpoint(directory)
    golden = golden_of(checkpoint, say)
    say("loading the decode model")
    pool = make_pool(checkpoint, golden, batch_size, target)
    prompts = sorted(golden.prompts.values(), key=lambda prompt: -prompt.length)
    say(f"prefilling {batch_size} requests")
    inputs = golden_inputs(pool, add_prompts(pool, list(islice(cycle(prompts), batch_size))))

    def trace(limit: int | None = None) -> SavedGraph:
        step = decode_step(pool.model, batch_size, found, mode, pass_limit=limit)
        chosen = choose_region(step.cut.regions, region)
        set_inputs(chosen.module, _fed_to(step.cut, chosen, step.fed(inputs)))
        record_values(chosen.module)
        return SavedGraph(chosen.module, chosen.aliases, target, chosen.stage_names, numerics, chosen.name)

    return trace


def _fed_to(cut: CutGraph, wanted: Region, inputs: list[Tensor]) -> list[Tensor]:
    """What a region is fed, given what the step is; the regions before it run in eager PyTorch."""
    memory = StepMemory(inputs)
    for region in takewhile(lambda region: region is not wanted, cut.regions):
        memory.run(region)
    return [memory.read(place).clone() for place in wanted.inputs]
