"""``golden`` and ``compare``: what the reference says, and whether other values agree with it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, print_table, progress_bar
from .options import DirectoryArgument, Dtype, Fp8Max, JsonOption, Switch

if TYPE_CHECKING:
    from ..model.accuracy.compare import Comparison
    from ..model.numerics import Numerics


def golden(
    directory: DirectoryArgument,
    out: Annotated[Path | None, typer.Option(help="File to write; DIRECTORY/golden.safetensors if omitted.")] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="INPUTS.json", help="Write all values of these prompts to --out instead."),
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
    if prompts is not None and out is None:
        raise typer.BadParameter("with --prompts, say which file to write", param_hint="--out")
    with clean_errors():
        path = out or directory / "golden.safetensors"
        numerics = _numerics(dtype, kv_quant, act_quant, fp8_max)
        if prompts is not None:
            found = _write_vectors(directory, prompts, path, numerics, json)
        else:
            found = _write_golden(directory, path, numerics, json)
    beside = f"deepinfer-neuron run {directory} --compare"
    conclude(True, f"{found} are in {path}", beside if out is None else f"deepinfer-neuron compare CANDIDATE {path}")


def _numerics(dtype: Dtype, kv_quant: Switch, act_quant: Switch, fp8_max: Fp8Max) -> Numerics:
    import torch

    from ..model.numerics import Numerics

    arithmetic = torch.float32 if dtype is Dtype.fp32 else torch.bfloat16
    return Numerics(arithmetic, kv_quant is Switch.on, act_quant is Switch.on, float(fp8_max.value))


def _write_vectors(directory: Path, prompts: Path, path: Path, numerics: Numerics, json: Path | None) -> str:
    from ..model.accuracy.vectors import read_requests, write_vectors
    from ..model.checkpoint.loader import open_checkpoint

    with open_checkpoint(directory) as checkpoint, progress_bar("running prompts") as progress:
        names = list(write_vectors(checkpoint, read_requests(prompts), path, numerics, progress))
    write_report(json, {"file": str(path), "tensors": names})
    return f"{len(names)} tensors"


def _write_golden(directory: Path, path: Path, numerics: Numerics, json: Path | None) -> str:
    from ..model.accuracy.golden import write_golden
    from ..model.checkpoint.loader import open_checkpoint
    from .golden_tables import golden_table

    with open_checkpoint(directory) as checkpoint, progress_bar("running prompts") as progress:
        made = write_golden(checkpoint, path, numerics, progress=progress)
    print_table(golden_table(made))
    write_report(json, {"file": str(path)} | made.summary())
    return f"golden values of {len(made.prompts)} prompts"


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
            print_table(table)
        if comparison.missing:
            print(f"missing in {candidate}: {', '.join(comparison.missing)}")
        if comparison.left_out:
            print(f"left out of {candidate}: {', '.join(comparison.left_out)}")
        write_report(json, asdict(comparison) | {"agrees": comparison.agrees})
    fine = f"nothing: what made {candidate} computes what the reference does"
    conclude(
        comparison.agrees,
        describe_comparison(comparison),
        fine if comparison.agrees else "deepinfer-neuron verify DIRECTORY, which finds the first operator that differs",
    )


def describe_comparison(comparison: Comparison) -> str:
    """How many sets of logits agree, and what is missing, in a sentence."""
    judged = [row for row in comparison.logits if row.noise_rel is not None]
    agreeing = sum(row.agrees for row in judged)
    parts = [f"logits of {agreeing} of {len(judged)} prompts agree with the reference within its noise"]
    if not judged:
        parts = ["the golden file has no noise to judge by: the table says how far the values are apart"]
    if comparison.missing:
        parts.append(f"{len(comparison.missing)} values are missing")
    return ", ".join(parts)
