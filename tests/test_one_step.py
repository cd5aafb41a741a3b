"""Whoever looks at a step looks at the programs that are compiled, to the digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from deepinfer_neuron.benchmarks import lowering_speed
from deepinfer_neuron.bisection.accuracy import step_values
from deepinfer_neuron.bisection.subjects.values import inputs_of
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.graphs.graph_file import SavedGraph
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.programs.region_lowering import RegionLowering
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.compiler.steps.decode_steps import decode_step, decode_steps
from deepinfer_neuron.compiler.steps.stored_steps import compile_into_store
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.engine import dump
from deepinfer_neuron.engine.decode_source import DecodeOptions
from deepinfer_neuron.errors import CaptureError, CompileError
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.preflight.step import check_steps
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.loader import DecodeVariant
from deepinfer_neuron.runtime.plan import DecodePlan, GraphMode
from deepinfer_neuron.runtime.slots import SlotSpec, padding_inputs
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.verification import run as verification_run
from torch import nn

PROMPT = SimpleNamespace(length=1)
LADDER = (1, 2)
SLOTS = (SlotSpec("x", torch.float32, (16,)),)


class Layers(nn.Module):
    """Three layers of one cache root in a stage each; with one request, the first stage reads the second layer too."""

    decode_slots = SLOTS

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("root", torch.zeros(3, 4, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in range(3):
            self.root[layer].add_(x.sum(0))
            seen = self.root[1][:1] if layer == 0 and x.shape[0] == 1 else 1
            (x,) = stage_boundary(f"layer {layer}", x + self.root[layer][:1] + seen)
        return x


class Wide(nn.Module):
    """Returns what a device has no type for."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, dim=1, keepdim=True)


class Lowered:
    """The digest of every module that is lowered for a compiler, all of which refuse to compile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.digests: set[str] = set()
        lower = RegionLowering.lower

        def record(lowering: RegionLowering, region: Region) -> LoweredModule:
            module = lower(lowering, region)
            self.digests.add(digest_of(module))
            return module

        def refuse(target: object, module: LoweredModule) -> Artifact:
            raise CompileError("nothing is compiled here")

        monkeypatch.setattr(RegionLowering, "lower", record)
        for target in (HostTarget, NeuronTarget):
            monkeypatch.setattr(target, "compile", refuse)

    def by(self, function: Callable[[], object]) -> set[str]:
        """Those that a call lowers, whether or not it needs the programs."""
        self.digests.clear()
        with suppress(CompileError):
            function()
        assert self.digests
        return set(self.digests)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Lowered:
    return Lowered(monkeypatch)


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose model is ``Layers``, for whoever opens a checkpoint."""
    pool = SimpleNamespace(model=Layers())
    for module in (step_values, verification_run):
        monkeypatch.setattr(module, "open_checkpoint", lambda directory: None)
        monkeypatch.setattr(module, "golden_of", lambda checkpoint, say: SimpleNamespace(prompts={"one": PROMPT}))
        monkeypatch.setattr(module, "make_pool", lambda *arguments: pool)
        monkeypatch.setattr(module, "add_prompts", lambda pool, prompts: prompts)
        monkeypatch.setattr(
            module, "golden_inputs", lambda pool, batch: padding_inputs(Layers.decode_slots, len(batch))
        )
    monkeypatch.setattr(dump, "open_checkpoint", lambda directory: nullcontext())
    monkeypatch.setattr(
        dump, "DecodeSource", lambda checkpoint, options: SimpleNamespace(model=pool.model, target=options.target)
    )
    return Path("checkpoint")


def digest_of(module: LoweredModule) -> str:
    return hashlib.sha256(module.text().encode()).hexdigest()


def digest_of_saved(saved: SavedGraph) -> str:
    options = find_target(saved.target).lowering_options(saved.numerics)
    return digest_of(lower_graph(saved.module, options, saved.aliases))


def names_of(plan: DecodePlan) -> list[list[str]]:
    """Of each batch size, smallest first, the programs of its regions."""
    replays = sorted(plan.replays, key=lambda replay: replay.batch_size)
    return [[region.artifact for region in replay.regions] for replay in replays]


@pytest.mark.parametrize("mode", ["regions", "whole"])
def test_the_ladder_is_what_is_compiled(tmp_path: Path, mode: GraphMode) -> None:
    target = HostTarget()
    lowering = RegionLowering(target, "fast")
    steps = reversed(decode_steps(Layers(), LADDER, target, mode))
    expected = [[lowering.key(region).digest for region in step.cut.regions] for step in steps]
    store = ArtifactStore(tmp_path / "store")
    assert names_of(compile_decode(Layers(), LADDER, mode=mode, store=store).plan) == expected
    variant = DecodeVariant({"model": "layers"}, LADDER, "host", target.fingerprint(), "fast", mode)
    stored = compile_into_store(Layers(), variant, ArtifactStore(tmp_path / "other"), 1)
    assert stored.plan is not None
    assert names_of(stored.plan) == expected


def test_slices_depend_on_the_ladder() -> None:
    alone = decode_step(Layers(), 2, HostTarget(), "regions")
    _, smaller = decode_steps(Layers(), LADDER, HostTarget(), "regions")
    assert len(alone.slices["root"]) == 3
    assert len(smaller.slices["root"]) == 2


@pytest.mark.parametrize("mode", ["regions", "whole"])
@pytest.mark.parametrize("target", ["host", "trn2"])
def test_a_graph_that_is_dumped_or_bisected_is_what_is_compiled(
    lowered: Lowered, checkpoint: Path, target: str, mode: GraphMode
) -> None:
    compiled = lowered.by(lambda: compile_decode(Layers(), [2], target=target, mode=mode, store=False))
    options = DecodeOptions((2,), mode=mode, target=target)
    for region in ("layer 0", "layer 1", "layer 2") if mode == "regions" else ("whole",):
        assert digest_of_saved(dump.trace_region(checkpoint, 2, options, region)) in compiled
        fed = step_values.step_with_values(checkpoint, 2, target, options, region)(None)
        assert digest_of_saved(fed) in compiled
        assert inputs_of(fed.module) is not None


@pytest.mark.parametrize("sizes", [(2,), LADDER])
def test_what_is_verified_checked_and_measured_is_what_is_compiled(
    lowered: Lowered, checkpoint: Path, sizes: tuple[int, ...]
) -> None:
    def final(target: str) -> set[str]:
        lowering = RegionLowering(find_target(target), "fast")
        steps = decode_steps(Layers(), sizes, find_target(target), "regions")
        return lowered.by(lambda: [lowering.lower(region) for step in steps for region in step.cut.regions])

    assert lowered.by(lambda: check_steps(Layers(), sizes, find_target("trn2"), "regions")) == final("trn2")
    # A size whose programs are refused ends a verification.
    verified = lowered.by(lambda: verification_run.run_verify(checkpoint, sizes, "fast", levels=[3]))
    timed = lowered.by(lambda: lowering_speed.time_lowering(Layers(), "regions", 1))
    if len(sizes) == 1:
        assert verified == timed == final("host")
    else:
        assert verified < final("host")


def test_whoever_traces_a_step_refuses_what_cannot_be_compiled() -> None:
    for trace in (
        lambda: compile_decode(Wide(), [1], target="trn2", store=False),
        lambda: decode_step(Wide(), 1, find_target("trn2"), "whole"),
        lambda: check_steps(Wide(), [1], find_target("trn2"), "whole"),
    ):
        with pytest.raises(CaptureError, match="returns int64 values"):
            trace()
