"""An edit of a file makes stale what the file decides, and nothing else; a comment makes nothing stale."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.programs import sources as program_sources
from deepinfer_neuron.compiler.programs.program_key import program_key
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.compiler.targets.table import TARGETS, find_target
from deepinfer_neuron.engine.decode_source import DecodeOptions, DecodeSource
from deepinfer_neuron.model import stored_tables
from deepinfer_neuron.model.checkpoint.loader import Checkpoint, open_checkpoint
from deepinfer_neuron.model.kernels import normalization
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes
from deepinfer_neuron.runtime import sources
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.plan_sources import plan_sources

NOTHING = frozenset()
PLAN, PROGRAM, WEIGHTS, TABLES = ({one} for one in ("plan", "program", "weights", "tables"))

DECIDES = {
    "benchmarks/tables.py": NOTHING,
    "bisection/run.py": NOTHING,
    "bisection/search/minimal_subset.py": NOTHING,
    "cli/app.py": NOTHING,
    "compiler/api.py": NOTHING,
    "compiler/capture/capture.py": PLAN,
    "compiler/graphs/graph_file.py": NOTHING,
    "compiler/hlo/convert.py": NOTHING,
    "compiler/lowering/cast.py": PLAN | PROGRAM,
    "compiler/lowering/device_kernels/rotate.py": PLAN | PROGRAM,
    "compiler/lowering/inexact.py": NOTHING,
    "compiler/programs/failure_bundle.py": NOTHING,
    "compiler/programs/program_key.py": PLAN,
    "compiler/regions/cut_graph.py": PLAN,
    "compiler/steps/started_steps.py": PLAN,
    "compiler/steps/step_plan.py": PLAN,
    "compiler/steps/stored_steps.py": NOTHING,
    "compiler/targets/host.py": PLAN | PROGRAM,
    "compiler/targets/iree.py": NOTHING,
    "compiler/targets/neuronx.py": NOTHING,
    "compiler/torch_compile/backend.py": NOTHING,
    "doctor/report.py": NOTHING,
    "engine/loading.py": NOTHING,
    "errors.py": NOTHING,
    "explain/drawing/svg.py": NOTHING,
    "explain/step.py": NOTHING,
    "files.py": NOTHING,
    "model/accuracy/tensor_file.py": NOTHING,
    "model/checkpoint/formats.py": WEIGHTS,
    "model/checkpoint/tiny.py": NOTHING,
    "model/checkpoint/tokenizer.py": WEIGHTS | TABLES,
    "model/config.py": PLAN | WEIGHTS | TABLES,
    "model/decode.py": PLAN | WEIGHTS,
    "model/engram_hash.py": WEIGHTS | TABLES,
    "model/kernels/normalization.py": PLAN | PROGRAM | WEIGHTS,
    "model/kernels/sparse_attention.py": PLAN | WEIGHTS,
    "model/reference/attention.py": NOTHING,
    "model/request_table.py": NOTHING,
    "model/weights.py": WEIGHTS,
    "passes/narrow_integers.py": PLAN | PROGRAM,
    "passes/order_cache_reads.py": PLAN,
    "passes/weight_layout.py": PLAN | PROGRAM | WEIGHTS,
    "preflight/check.py": NOTHING,
    "runtime/devices/nrt/device.py": NOTHING,
    "runtime/devices/pjrt_client.py": PLAN | PROGRAM,
    "runtime/loader.py": NOTHING,
    "runtime/neff/reader.py": NOTHING,
    "runtime/plan.py": PLAN | WEIGHTS,
    "runtime/runner.py": NOTHING,
    "runtime/store/store.py": NOTHING,
    "runtime/stored_tensors.py": WEIGHTS,
    "settings.py": NOTHING,
    "verification/kernel_contract.py": NOTHING,
}
"""Of the host's step. A model's buffers are stored with the weights, so its code decides them too."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, last changed long ago."""
    copy = tmp_path_factory.mktemp("package")
    for path in sources.ROOT.rglob("*.py"):
        name = path.relative_to(sources.ROOT)
        if name.parts[0] not in (".venv", "build", "tests"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy / name)
            os.utime(copy / name, (0, 0))
    return copy


@pytest.fixture
def read_there(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sources are read from the copy."""
    monkeypatch.setattr(sources, "ROOT", package)
    caches = sources._file, program_sources._own_sources
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


@pytest.fixture(scope="module")
def region() -> Region:
    """A region that calls a kernel of the model."""

    def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return normalization.rms_norm(x, weight, 1e-6)

    graph, context = capture(normalized, (torch.ones(2, 8, dtype=torch.bfloat16), torch.ones(8))), PassContext()
    run_passes(graph.module, context)
    return cut_graph(graph.module, context.aliases, context.stage_names, whole=True).regions[0]


@pytest.fixture(scope="module")
def checkpoint(nano_a: Path) -> Iterator[Checkpoint]:
    with open_checkpoint(nano_a) as opened:
        yield opened


@pytest.fixture
def keys(region: Region, checkpoint: Checkpoint, read_there: None) -> Callable[[], dict[str, str]]:
    """Digests of the keys that a process would ask for if it were started now."""

    def keys() -> dict[str, str]:
        program_sources._own_sources.cache_clear()
        source, target = DecodeSource(checkpoint, DecodeOptions(target="host")), HostTarget()
        made = {
            "plan": source.variant.plan_key,
            "program": program_key(region, target, target.lowering_options("fast")),
            "weights": source.variant.weights_key(source.weights, DecodePlan((), ())),
            "tables": stored_tables._key(checkpoint),
        }
        return {name: key.digest for name, key in made.items()}

    return keys


def edit(path: Path, addition: str) -> Callable[[], None]:
    """Add a line to a file; the result takes it away again."""
    before = path.read_text()

    def write(text: str) -> None:
        path.write_text(text)
        os.utime(path, (0, 0))

    write(before + addition)
    return lambda: write(before)


@pytest.mark.parametrize("file", DECIDES)
def test_an_edit_makes_stale_what_the_file_decides(
    file: str, package: Path, keys: Callable[[], dict[str, str]]
) -> None:
    before = keys()
    restore = edit(package / file, "\n\nADDED = 1\n")
    try:
        after = keys()
    finally:
        restore()
    assert {name for name in before if before[name] != after[name]} == DECIDES[file]


def test_a_comment_makes_nothing_stale(package: Path, keys: Callable[[], dict[str, str]]) -> None:
    before = keys()
    restores = [edit(package / file, "# A comment.\n") for file in DECIDES]
    try:
        assert keys() == before
    finally:
        for restore in restores:
            restore()


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_depends_on_the_module_of_its_target(target: str) -> None:
    name = type(find_target(target)).__module__
    others = {type(find_target(other)).__module__ for other in TARGETS} - {name}
    assert name in plan_sources(target)
    assert not others & set(plan_sources(target))


def test_every_folder_of_the_package_is_asked() -> None:
    tops = {path.relative_to(sources.ROOT).parts[0] for path in sources.ROOT.glob("*/*.py")} - {"tests", "build"}
    assert tops == {Path(file).parts[0] for file in DECIDES if "/" in file}
