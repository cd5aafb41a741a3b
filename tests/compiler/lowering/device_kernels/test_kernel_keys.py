"""The key of a program names the device kernels in it and the sources that they are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.lowering.device_kernels.registry import register_kernel
from deepinfer_neuron.compiler.lowering.device_kernels.rms_norm import RMS_NORM
from deepinfer_neuron.compiler.programs.plan_fingerprint import plan_fingerprint
from deepinfer_neuron.compiler.programs.program_key import program_key
from deepinfer_neuron.compiler.programs.region_lowering import RegionLowering
from deepinfer_neuron.compiler.regions.canonical import canonical_digest
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.compiler.targets import neuronx
from deepinfer_neuron.compiler.targets.flags import default_flags
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget
from deepinfer_neuron.engine import decode_source
from deepinfer_neuron.engine.decode_source import DecodeOptions, DecodeSource
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.settings import KernelChoice, Settings
from neuron_compilers import install_compiler
from stand_in_kernels import MODULE, SOURCE, nki_rms_norm

PART = "device kernels"
X, WEIGHT = torch.ones(2, 64, dtype=torch.bfloat16), torch.ones(64)


@pytest.fixture
def target(tmp_path: Path) -> NeuronTarget:
    return NeuronTarget(default_flags("trn2"), install_compiler(tmp_path / "bin"), use_kernels=True)


def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.deepinfer.rms_norm(x, weight, 1e-6)


def region_of(function: Any, *inputs: torch.Tensor) -> Region:
    graph = capture(function, inputs or (X, WEIGHT))
    context = PassContext(target="trn2")
    run_passes(graph.module, context)
    (region,) = cut_graph(graph.module, context.aliases, context.stage_names, whole=True).regions
    return region


def key_of(target: NeuronTarget, function: Any = normalized, *inputs: torch.Tensor) -> ArtifactKey:
    return program_key(region_of(function, *inputs), target, target.lowering_options("fast"))


def test_the_choice_and_the_kernel_count(target: NeuronTarget) -> None:
    chosen, without = key_of(target), key_of(replace(target, use_kernels=False))
    assert set(chosen.parts[PART]) == {RMS_NORM.name}
    assert set(chosen.parts[PART][RMS_NORM.name]) >= {"deepinfer_neuron.compiler.lowering.device_kernels.rms_norm"}
    assert without.parts[PART] == {}
    assert chosen.digest != without.digest


def test_only_kernels_that_the_graph_has_count(target: NeuronTarget, write_source) -> None:
    assert key_of(target, lambda x, w: x * w).parts[PART] == {}
    before = key_of(target)
    write_source()
    register_kernel(nki_rms_norm(accepts=lambda call: False))
    assert key_of(target).digest == before.digest


def test_kernels_inside_bodies_that_stay_count(target: NeuronTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.library._scoped_library("kernel_test", "FRAGMENT") as library:
        library.define("outer(Tensor x, Tensor w) -> Tensor")
        for key in ("CPU", "Meta"):
            library.impl("outer", normalized, key)
        outer = torch.ops.kernel_test.outer.default
        monkeypatch.setitem(torch._decomp.decomposition_table, outer, normalized)
        assert set(key_of(target, lambda x, w: outer(x, w)).parts[PART]) == {RMS_NORM.name}


def test_a_changed_source_is_another_program(target: NeuronTarget, write_source) -> None:
    write_source()
    register_kernel(nki_rms_norm())
    before = key_of(target)
    named = before.parts[PART]["stand-in rms_norm"]
    assert MODULE in named and "nki" in named
    write_source(SOURCE + "\n# another line\n")
    after = key_of(target)
    assert [name for name in before.parts if before.parts[name] != after.parts[name]] == [PART]
    assert after.digest != before.digest
    assert canonical_digest(region_of(normalized)) == canonical_digest(region_of(normalized))
    write_source()
    assert key_of(target).digest == before.digest


def test_a_source_that_changed_under_the_process_has_no_key(target: NeuronTarget, write_source) -> None:
    path = write_source()
    register_kernel(nki_rms_norm())
    path.write_text(SOURCE)
    with pytest.raises(ArtifactError, match=f"{MODULE}.py changed after this process started"):
        key_of(target)


def test_the_key_of_a_region_is_that_of_what_is_lowered(target: NeuronTarget) -> None:
    lowering, region = RegionLowering(target, "fast"), region_of(normalized)
    assert lowering.key(region).digest == key_of(target).digest
    assert "AwsNeuronRmsNorm" in lowering.lower(region).text()


def test_a_plan_depends_on_every_kernel_that_its_programs_may_have(target: NeuronTarget, write_source) -> None:
    without = replace(target, use_kernels=False)
    assert plan_fingerprint(without) == without.fingerprint()
    shipped = plan_fingerprint(target)
    assert shipped.startswith(f"{target.fingerprint()}; kernels ")
    write_source()
    register_kernel(nki_rms_norm(accepts=lambda call: False, targets=("trn3",)))
    assert plan_fingerprint(target) == shipped
    register_kernel(nki_rms_norm(name="for trn2"))
    more = plan_fingerprint(target)
    write_source(SOURCE + "\n# another line\n")
    assert len({shipped, more, plan_fingerprint(target)}) == 3


def test_a_plan_that_is_looked_for_has_the_kernels_in_its_key(
    nano_a: Path, target: NeuronTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(nki: KernelChoice) -> str:
        for module in (decode_source, neuronx):
            monkeypatch.setattr(module, "settings", lambda: Settings(nki=nki, compiler=target.compiler))
        with open_checkpoint(nano_a) as checkpoint:
            return DecodeSource(checkpoint, DecodeOptions([1], target="trn2")).variant.fingerprint

    assert fingerprint("auto") == plan_fingerprint(target)
    assert fingerprint("off") == target.fingerprint()
