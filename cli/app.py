"""The command line: a table of commands, each of which delegates to the module that does the work.

Modules are imported inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..files import write_report
from .bench import bench
from .bisect import bisect_graph
from .cache import cache
from .compile import compile_step
from .console import clean_errors, parse_sizes, print_now, print_table, progress_bar
from .doctor import doctor
from .dump import dump
from .options import Dtype, EngineMode, Fp8Max, JsonOption, ModeOption, NumericsMode, Size, Switch, TargetOption

main = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
tiny = typer.Typer(no_args_is_help=True, help="Small checkpoints with random weights in the layout of the release.")
main.add_typer(tiny, name="tiny")
main.add_typer(cache, name="cache")
main.add_typer(bench, name="bench")
main.command("doctor")(doctor)


@main.callback(help="Compile and replay the decode step of a language model for AWS Trainium.")
def _root() -> None:
    pass


@tiny.command("make")
def tiny_make(
    directory: Annotated[Path, typer.Argument(help="A new or empty directory.")],
    size: Annotated[Size, typer.Option(help="tiny: 0.8 GB, real tokenizer. nano: 3 MB, no text.")] = Size.tiny,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal bytes.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a checkpoint made before.")] = False,
    json: JsonOption = None,
) -> None:
    """Make a checkpoint with random weights."""
    with clean_errors():
        from ..model.checkpoint.tiny import make_checkpoint

        with progress_bar("writing tensors") as progress:
            make_checkpoint(directory, size.value, seed, overwrite, progress)
        print(f"{directory}: a {size.value} checkpoint, seed {seed}")
        write_report(json, {"directory": str(directory), "size": size.value, "seed": seed})


@tiny.command("check")
def tiny_check(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")], json: JsonOption = None
) -> None:
    """Check names, shapes, dtypes, engram constants and every value of a checkpoint."""
    with clean_errors():
        from ..model.checkpoint.check import check_checkpoint

        with progress_bar("reading tensors") as progress:
            summary = check_checkpoint(directory, progress)
        rows: list[tuple[object, ...]] = [(entry.dtype, entry.tensors, entry.bytes) for entry in summary.dtypes]
        rows.append(("all", summary.tensors, summary.bytes))
        print_table(f"{directory}: {len(summary.shards)} shards, good", ("dtype", "tensors", "bytes"), rows)
        write_report(json, summary)


@main.command("golden")
def golden(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")],
    out: Annotated[Path | None, typer.Option(help="File to write; DIRECTORY/golden.safetensors if omitted.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="INPUTS.json", help="Write all values of these prompts instead.")
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="Arithmetic of weights and activations.")] = Dtype.bf16,
    kv_quant: Annotated[Switch, typer.Option(help="Simulate the cache quantisers.")] = Switch.on,
    act_quant: Annotated[Switch, typer.Option(help="Quantise the inputs of quantised linears.")] = Switch.on,
    fp8_max: Annotated[
        Fp8Max, typer.Option(help="The largest fp8 value; below 448 as on Trainium 1 and 2.")
    ] = Fp8Max.ocp,
    json: JsonOption = None,
) -> None:
    """Run the reference on the built-in prompts: logits, greedy tokens, residual streams, noise floor."""
    with clean_errors():
        import torch

        from ..model.accuracy.golden import write_golden
        from ..model.accuracy.vectors import read_requests, write_vectors
        from ..model.checkpoint.loader import open_checkpoint
        from ..model.numerics import Numerics
        from .golden_tables import golden_table

        numerics = Numerics(
            torch.float32 if dtype is Dtype.fp32 else torch.bfloat16,
            kv_quant is Switch.on,
            act_quant is Switch.on,
            float(fp8_max.value),
        )
        path = out or directory / "golden.safetensors"
        with open_checkpoint(directory) as checkpoint, progress_bar("running prompts") as progress:
            if prompts is not None:
                names = list(write_vectors(checkpoint, read_requests(prompts), path, numerics, progress))
                print(f"{path}: {len(names)} tensors")
                write_report(json, {"file": str(path), "tensors": names})
            else:
                made = write_golden(checkpoint, path, numerics, progress=progress)
                print_table(*golden_table(made))
                write_report(json, {"file": str(path)} | made.summary())


@main.command("compare")
def compare(
    candidate: Annotated[Path, typer.Argument(help="Values to judge.")],
    golden: Annotated[Path, typer.Argument(help="A file that `golden` wrote.")],
    json: JsonOption = None,
) -> None:
    """Argmax, logits and residual streams against golden ones; exits with 1 if they differ by more than the noise."""
    with clean_errors():
        from ..model.accuracy.compare import compare_files
        from .golden_tables import comparison_tables

        comparison = compare_files(candidate, golden)
        for table in comparison_tables(comparison):
            print_table(*table)
        if comparison.missing:
            print(f"missing in {candidate}: {', '.join(comparison.missing)}")
        if comparison.left_out:
            print(f"left out of {candidate}: {', '.join(comparison.left_out)}")
        write_report(json, asdict(comparison) | {"agrees": comparison.agrees})
    if not comparison.agrees:
        raise typer.Exit(1)


main.command("compile")(compile_step)
main.command("bisect")(bisect_graph)
main.command("dump")(dump)


@main.command("run")
def run(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")],
    mode: Annotated[
        EngineMode | None,
        typer.Option(help="Default: eager if DEEPINFER_ENFORCE_EAGER, else DEEPINFER_NEURON_GRAPH_MODE, else whole."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts that are decoded together.")] = 1,
    target: TargetOption = None,
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager PyTorch's order of operations.")] = (
        NumericsMode.fast
    ),
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Keep the residual streams after each layer; in mode eager only.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the values for `compare`.")] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Exit with 1 if logits differ from the golden ones by more than the noise."),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Run the golden prompts through the engine, feeding the golden tokens, and compare."""
    with clean_errors():
        from ..verification.golden_run import RunOptions, run_golden
        from .golden_tables import comparison_tables

        options = RunOptions(mode and mode.value, batch_size, target, numerics.value, hidden)
        report = run_golden(directory, options, out, print_now)
        for table in comparison_tables(report.comparison):
            print_table(*table)
        if out is not None:
            print(f"{out}: values of {len(report.choices)} prompts in mode {report.mode}")
        write_report(json, report.to_json())
    if compare and not report.comparison.agrees:
        raise typer.Exit(1)


@main.command("demo")
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where the tiny checkpoint is, or is made.")] = Path("demo"),
    batch_sizes: Annotated[str, typer.Option(help="Batch sizes to compile, separated by commas.")] = "1,2,4,8",
    size: Annotated[Size, typer.Option(help="Size of the checkpoint if one has to be made.")] = Size.tiny,
    mode: ModeOption = None,
    json: JsonOption = None,
) -> None:
    """The main job: reference, eager and compiled decode of three prompts at every batch size, compared."""
    with clean_errors():
        from ..verification.demo import run_demo
        from .demo_tables import demo_tables

        report = run_demo(directory, parse_sizes(batch_sizes), size.value, mode and mode.value, print_now)
        for table in demo_tables(report):
            print_table(*table)
        write_report(json, report)


@main.command("verify")
def verify(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")],
    batch_sizes: Annotated[str, typer.Option(help="Batch sizes, separated by commas.")] = "1,2,4,8",
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager's bits are expected.")] = NumericsMode.exact,
    levels: Annotated[
        list[int], typer.Option("--level", min=1, max=3, help="1: passes, 2: operators, 3: regions; all if omitted.")
    ] = [1, 2, 3],  # noqa: B006
    json: JsonOption = None,
) -> None:
    """Every pass in eager, every operator and region compiled against eager; exits with 1 if what is exact differs."""
    with clean_errors():
        from ..verification.run import run_verify
        from .verify_tables import verify_tables

        sizes = parse_sizes(batch_sizes)
        report = run_verify(directory, sizes, numerics.value, print_now, levels)
        for table in verify_tables(report):
            print_table(*table)
        write_report(json, report)
    if not report.agrees:
        raise typer.Exit(1)
