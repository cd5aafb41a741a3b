"""Results of bisections that nobody ran, around real modules."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report.recipe import Recipe
from deepinfer_neuron.bisection.search.result import (
    BisectResult,
    Cost,
    Evidence,
    Failure,
    HistoryPoint,
    Miscompilation,
    OtherFailure,
    Reduction,
    Reproduction,
    Stage,
)
from deepinfer_neuron.bisection.subjects.subject import Candidate, Item
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.targets.command import CompilerCommand
from host_programs import trace
from jaxlib.mlir import ir
from neuron_compilers import install_compiler
from stablehlo_texts import identity, sort

SORT = Signature(
    "error",
    "EVRF029",
    "Operation sort is not supported on trn#. Use supported equivalent operation like TopK or replace it with an "
    "alternate implementation via Neuron Kernel Interface (NKI).",
)
"""What the stand-in compiler says of ``sorting()``."""

OUTPUT = "module.neff"

COMPILER = CompilerCommand(
    name="trn2",
    command=("neuronx-cc", "compile", "{input}", "--output={output}"),
    input_name="module.mlir",
    output_name=OUTPUT,
    format="mlir",
    fingerprint="neuronx-cc 2.27; --target=trn2",
)


def bytecode(text: str) -> bytes:
    """A module as bytecode."""
    buffer = io.BytesIO()
    with shared_context():
        ir.Module.parse(text).operation.write_bytecode(buffer)
    return buffer.getvalue()


def sorting() -> Candidate:
    """A module that the stand-in compiler refuses."""
    return Candidate(1, bytecode(sort("sort")))


def accepted() -> Candidate:
    """A module that every compiler takes."""
    return Candidate(0, bytecode(identity("tensor<4xf32>")))


def traced() -> Candidate:
    """Two operations with their graph; the second result takes over the memory of the first input."""

    def step(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sin(x)
        return y, cache + y

    graph = trace(step, torch.zeros(4), torch.zeros(4))
    module = lower_graph(graph, device_options("trn2"), {1: 0})
    return Candidate(2, module.bytecode, graph, {1: 0})


def program(count: int = 12, regions: int = 3) -> list[Item]:
    """``count`` operations in a chain that is also read five items later, in regions, and two results."""
    items = [
        Item(
            name=f"%op_{index}",
            text=f"%op_{index} = aten.add.Tensor(%op_{index - 1}, %op_{index - 5}) : f32[4]",
            line=f"model/moe.py:{10 + index % 90}",
            group=f"layers.{index * regions // count}",
            reads=tuple(one for one in (index - 5, index - 1) if one >= 0),
        )
        for index in range(count)
    ]
    ends = [Item(f"result {n}", f"return %op_{count - 1 - n}", reads=(count - 1 - n,), is_result=True) for n in (0, 1)]
    return [*items, *ends]


def make_result(**changes: Any) -> BisectResult:
    """A complete result of a program of twelve operations, two of which are kept; changes of it, or of its parts."""
    parts: dict[str, Any] = {
        "failure": Failure(SORT, 3, Reproduction(3, 3), Reproduction(5, 5)),
        "reduction": Reduction(program(), (3, 8), sorting(), sorting(), ("tensor %a: 512 rows to 4",)),
        "evidence": Evidence(
            removals=("%op_3: it compiles", "%op_8: it compiles"),
            is_minimal=True,
            good=accepted(),
            others=(OtherFailure(Signature("signal", "SIGSEGV"), accepted(), 2),),
            survey=(),
        ),
        "cost": Cost(
            stages=(Stage("regions", 12, 6, 4, 41.5), Stage("operations", 6, 2, 7, 72.0)),
            history=history([(12, True), (6, True), (3, False), (2, True), (1, False)]),
            probes=11,
            known=2,
            bound=6.1,
            seconds=113.5,
        ),
        "miscompilation": Miscompilation(),
    }
    for name, part in parts.items():
        own = {field.name: changes.pop(field.name) for field in fields(part) if field.name in changes}
        parts[name] = replace(part, **own)
    whole = {"subject": "nano, batch 4, trn2", "compiler": COMPILER, "complete": True, **parts}
    return BisectResult(**{**whole, **changes})


def history(answers: Sequence[tuple[int, bool]]) -> tuple[HistoryPoint, ...]:
    """Sizes that were asked about, and whether they failed; each took a probe."""
    points: list[HistoryPoint] = []
    for probes, (size, failed) in enumerate(answers, 1):
        best = min([size, points[-1].best] if points else [size]) if failed else points[-1].best
        points.append(HistoryPoint("operations", size, failed, probes, best))
    return tuple(points)


def standin_recipe(directory: Path, module: bytes | None = None, fault: str = "", **changes: Any) -> Recipe:
    """How the stand-in for neuronx-cc is started; see its ``faults.py``."""
    compiler = install_compiler(directory, fault)
    words = ("compile", "{input}", "--framework=XLA", "--target=trn2", "--logfile=cc.txt", "--output={output}")
    recipe = Recipe(
        command=(str(compiler), *words),
        input_name="module.mlir",
        output_name=OUTPUT,
        module=sorting().module if module is None else module,
        log_name="cc.txt",
        environment={"PYTHONPATH": str(package_parent())},
        seconds=300.0,
    )
    return replace(recipe, **changes)


def shell_recipe(script: str, **changes: Any) -> Recipe:
    """A compiler that is a line of shell."""
    recipe = Recipe(("/bin/sh", "-c", script, "sh", "{input}", "{output}"), "module.mlir", "out", b"module")
    return replace(recipe, **changes)


def package_parent() -> Path:
    """Where the package is imported from."""
    return Path(sys.modules["deepinfer_neuron"].__file__ or "").parents[1]
