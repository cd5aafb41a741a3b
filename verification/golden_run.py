"""The golden prompts through an engine, teacher-forced: eager or compiled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..compiler.api import compile_decode
from ..errors import ConfigError, InputError
from ..model.accuracy.candidate import candidate_values, follow_prompts
from ..model.accuracy.compare import Comparison, ValueSet, compare_values
from ..model.accuracy.golden_pool import golden_of, golden_path, make_pool
from ..model.accuracy.tensor_file import write_tensors
from ..model.checkpoint.loader import open_checkpoint
from ..model.request_table import StepFunction
from ..model.requests import RequestPool
from ..reporting import Say
from ..runtime.devices.choice import default_target
from ..runtime.shared_caches import on_shared_caches
from ..settings import settings


@dataclass(frozen=True)
class RunOptions:
    """How the prompts are run.

    Attributes:
        mode: "eager", or the mode in which the step is compiled; None leaves the choice to the environment.
        batch_size: prompts that are decoded together; rows of a compiled step that no prompt needs are padding.
        target: whose compiler and fp8 range are used, with ``numerics`` as ``compile_decode`` has them.
        hidden: keep the residual streams, in mode "eager" only.
    """

    mode: str | None = None
    batch_size: int = 1
    target: str | None = None
    numerics: str = "fast"
    hidden: bool = False


@dataclass(frozen=True)
class RunReport:
    """How the prompts were run, the tokens that the engine would have chosen, and how its values compare.

    ``choices`` has, for each prompt, the best token after the prompt and after each golden token.
    """

    mode: str
    options: RunOptions
    choices: dict[str, list[int]]
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object with stable keys."""
        return asdict(self) | {"agrees": self.comparison.agrees}


def run_golden(
    directory: Path, options: RunOptions, out: Path | None = None, say: Say = lambda line: None
) -> RunReport:
    """Run the golden prompts of a checkpoint, feeding the golden tokens, and compare with the golden values.

    Golden values are made beside the checkpoint if they are absent. With ``out``, a candidate file is written for
    ``compare_files``.

    Raises:
        InputError: residual streams are asked of a compiled step.
        ConfigError: an unknown target or mode, or the environment forbids to compile, or asks for an fp8 range that
            the target does not have.
        CheckpointError: a damaged checkpoint.
        ArtifactError: a damaged golden file, or one of another checkpoint.
    """
    mode = choose_mode(options.mode)
    if options.hidden and mode != "eager":
        raise InputError(
            f"a step compiled in mode {mode} returns no residual streams: run in mode eager, or leave them out"
        )
    target = options.target or default_target()
    options = replace(options, target=target)
    checkpoint = open_checkpoint(directory)
    golden = golden_of(checkpoint, say)
    say("loading the decode model")
    pool = make_pool(checkpoint, golden, options.batch_size, target)
    step = None if mode == "eager" else _compile(pool, mode, options, say)
    prompts = follow_prompts(
        pool, golden.prompts, options.batch_size, step, options.hidden, lambda names: say(f"running {', '.join(names)}")
    )
    values = candidate_values(prompts, mode)
    if out is not None:
        write_tensors(out, values.tensors, values.metadata)
    return RunReport(
        mode=mode,
        options=options,
        choices={name: prompt.logits.argmax(-1).tolist() for name, prompt in prompts.items()},
        comparison=compare_values(values, ValueSet.read(golden_path(checkpoint))),
    )


def choose_mode(mode: str | None) -> str:
    """``mode``, or what the environment asks for; raises ConfigError if the two contradict each other."""
    if mode is None:
        return "eager" if settings().enforce_eager else settings().graph_mode
    if mode != "eager" and settings().enforce_eager:
        raise ConfigError(f"DEEPINFER_ENFORCE_EAGER forbids mode {mode}: unset it, or run in mode eager")
    return mode


def _compile(pool: RequestPool, mode: str, options: RunOptions, say: Say) -> StepFunction:
    """A compiled step on the caches that prompts are prefilled into."""
    say(f"compiling in mode {mode}")
    runner = compile_decode(pool.model, [options.batch_size], options.target, options.numerics, mode, progress=say)
    return on_shared_caches(runner)
