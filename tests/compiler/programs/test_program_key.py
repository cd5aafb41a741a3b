"""What changes the key of a program, and what does not."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import jaxlib.version
import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.programs import program_key as program_key_module
from deepinfer_neuron.compiler.programs import sources
from deepinfer_neuron.compiler.programs.program_key import program_key
from deepinfer_neuron.compiler.regions.cut import Region, StepValue
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.model.kernels import normalization
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes
from deepinfer_neuron.runtime.store.key import ArtifactKey
from hypothesis import given
from hypothesis import strategies as st

TARGET = HostTarget()
OPTIONS = TARGET.lowering_options("exact")
X, Y = torch.ones(2, 4), torch.ones(2, 4)
RMS_NORM = "deepinfer.rms_norm.default"


def region_of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Region:
    graph = capture(function, inputs or (X, Y))
    context = PassContext()
    run_passes(graph.module, context)
    (region,) = cut_graph(graph.module, context.aliases, context.stage_names, whole=True).regions
    return region


def base(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 2 + y).sum(-1)


def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.deepinfer.rms_norm(x, weight, 1e-6)


def key_of(function: Callable[..., torch.Tensor] = base, *inputs: torch.Tensor) -> ArtifactKey:
    return program_key(region_of(function, *inputs), TARGET, OPTIONS)


@pytest.mark.parametrize(
    ("part", "function", "inputs"),
    [
        ("graph", lambda x, y: (x * 3 + y).sum(-1), (X, Y)),
        ("graph", lambda x, y: (x * 2 - y).sum(-1), (X, Y)),
        ("graph", lambda x, y: (x * 2 + y).sum(0), (X, Y)),
        ("inputs", base, (X.double(), Y)),
        ("inputs", base, (torch.ones(3, 4), torch.ones(3, 4))),
    ],
)
def test_the_graph_and_its_signature_count(
    part: str, function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]
) -> None:
    one, other = key_of(), key_of(function, *inputs)
    assert one.digest != other.digest
    assert {**one.parts, **one.texts}[part] != {**other.parts, **other.texts}[part]


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total.add_(x) * 2


def test_aliases_count() -> None:
    region = region_of(Counter(), X)
    copying = replace(region, outputs=tuple(StepValue(f"value {index}") for index in range(len(region.outputs))))
    assert region.aliases
    one, other = program_key(region, TARGET, OPTIONS), program_key(copying, TARGET, OPTIONS)
    assert one.parts["aliases"] != other.parts["aliases"]
    assert one.digest != other.digest


class OtherTarget(HostTarget):
    name = "other"


class OtherMachine(HostTarget):
    def fingerprint(self) -> str:
        return "another machine"


@pytest.mark.parametrize("target", [OtherTarget(), OtherMachine()])
def test_the_target_and_its_fingerprint_count(target: HostTarget) -> None:
    region = region_of(base)
    assert program_key(region, target, OPTIONS).digest != program_key(region, TARGET, OPTIONS).digest


@pytest.mark.parametrize("changes", [{"numerics": "fast"}, {"pad_single_row_dot": False}, {"float64": False}])
def test_every_option_of_the_lowering_counts(changes: dict[str, object]) -> None:
    region = region_of(base)
    other = program_key(region, TARGET, replace(OPTIONS, **changes))
    assert other.digest != program_key(region, TARGET, OPTIONS).digest


@pytest.mark.parametrize(
    ("owner", "name"), [(torch, "__version__"), (jaxlib.version, "__version__"), (program_key_module, "SCHEMA")]
)
def test_versions_count(monkeypatch: pytest.MonkeyPatch, owner: ModuleType, name: str) -> None:
    before = key_of().digest
    monkeypatch.setattr(owner, name, "0")
    assert key_of().digest != before


@pytest.mark.parametrize("file", ["lowering/emitter.py", "lowering/matmul.py", "lowering/lower.py", "targets/host.py"])
def test_the_sources_of_the_compiler_count(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    before = key_of()
    own = sources._own_sources
    name = f"deepinfer_neuron.compiler.{file.removesuffix('.py').replace('/', '.')}"
    monkeypatch.setattr(
        sources, "_own_sources", lambda module: {one: value + "+" * (one == name) for one, value in own(module).items()}
    )
    after = key_of()
    (changed,) = [name for name in before.parts if before.parts[name] != after.parts[name]]
    assert changed == "compiler sources"
    assert before.digest != after.digest


def test_what_only_tests_and_people_use_does_not_count() -> None:
    named = key_of().parts["compiler sources"]
    assert "deepinfer_neuron.compiler.lowering.lower" in named
    assert "deepinfer_neuron.compiler.lowering.inexact" not in named
    assert "deepinfer_neuron.compiler.api" not in named


def test_the_sources_of_the_kernels_in_the_graph_count_and_of_no_other() -> None:
    assert key_of().parts["kernel sources"] == {}
    named = key_of(normalized, torch.ones(2, 8, dtype=torch.bfloat16), torch.ones(8)).parts["kernel sources"]
    assert set(named) == {RMS_NORM}
    assert set(named[RMS_NORM]) == {normalization.__name__, "deepinfer_neuron.model.kernels.library"}


def in_a_loop(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    def body(step: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return step + 1, torch.ops.deepinfer.rms_norm(value, weight, 1e-6)

    return torch.while_loop(lambda step, value: step < 3, body, (torch.zeros((), dtype=torch.int32), x))[1]


def test_kernels_inside_loops_are_seen() -> None:
    key = key_of(in_a_loop, torch.ones(2, 8, dtype=torch.bfloat16), torch.ones(8))
    assert set(key.parts["kernel sources"]) == {RMS_NORM}


REGION = region_of(base)
NAMES = st.text("abcxyz_", min_size=1)


@given(st.lists(NAMES, min_size=2, max_size=2, unique=True), NAMES)
def test_names_do_not_count(names: list[str], region_name: str) -> None:
    module = copy.deepcopy(REGION.module)
    for node, name in zip(module.graph.find_nodes(op="placeholder"), names, strict=True):
        node.name = node.target = name
    renamed = replace(REGION, module=module, name=region_name)
    assert program_key(renamed, TARGET, OPTIONS).digest == program_key(REGION, TARGET, OPTIONS).digest


DIGEST = """
import torch
from torch import fx
import deepinfer_neuron.model.kernels.normalization
from deepinfer_neuron.compiler.programs.program_key import program_key
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.compiler.targets.host import HostTarget
graph = fx.Graph()
x, weight = graph.placeholder("x"), graph.placeholder("weight")
y = graph.call_function(torch.ops.deepinfer.rms_norm.default, (x, weight, 1e-6))
x.meta["val"] = y.meta["val"] = torch.ones(2, 8, dtype=torch.bfloat16)
weight.meta["val"] = torch.ones(8)
graph.output((y,))
module = fx.GraphModule({}, graph)
target = HostTarget()
digest = program_key(Region("r", module, (0, 1), ("y",)), target, target.lowering_options("exact")).digest
"""
IN_A_PROCESS = f"""
import sys
sys.path.insert(0, sys.argv[1])
{DIGEST}
assert deepinfer_neuron.__file__.startswith(sys.argv[1])
print(digest)
"""


def test_a_process_with_another_hash_seed_and_checkout_agrees(tmp_path: Path) -> None:
    (tmp_path / "deepinfer_neuron").symlink_to(Path(program_key_module.__file__).parents[2])
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", IN_A_PROCESS, str(tmp_path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here: dict[str, str] = {}
    exec(DIGEST, here)
    assert len(here["digest"]) == 64
    assert result.stdout == f"{here['digest']}\n"
