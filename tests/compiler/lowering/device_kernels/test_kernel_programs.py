"""Programs with kernels, through the stand-in for neuronx-cc, from the variable on."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.device_kernels.registry import register_kernel
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.targets import neuronx
from deepinfer_neuron.compiler.targets.flags import default_flags
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget, neuron_target
from deepinfer_neuron.errors import CompileError
from deepinfer_neuron.preflight.check import check_module
from deepinfer_neuron.preflight.run import run_preflight
from deepinfer_neuron.settings import Settings
from host_programs import trace
from jaxlib.mlir import ir
from neuron_compilers import install_compiler
from stand_in_kernels import nki_rms_norm

X, WEIGHT = torch.ones(2, 64, dtype=torch.bfloat16), torch.ones(64)


@pytest.fixture
def target(tmp_path: Path) -> NeuronTarget:
    return NeuronTarget(default_flags("trn2"), install_compiler(tmp_path / "bin"), use_kernels=True)


def lowered_for(target: NeuronTarget) -> LoweredModule:
    module = trace(lambda x, w: (torch.ops.deepinfer.rms_norm(x, w, 1e-6),), X, WEIGHT)
    return lower_graph(module, target.lowering_options("fast"))


@pytest.mark.parametrize("module_format", ["mlir", "hlo"])
def test_the_compiler_takes_its_own_kernel(target: NeuronTarget, module_format) -> None:
    module = lowered_for(target)
    assert "AwsNeuronRmsNorm" in module.text()
    assert replace(target, module_format=module_format).compile(module).target == "trn2"


@pytest.mark.parametrize("module_format", ["mlir", "hlo"])
def test_the_compiler_finds_the_file_of_an_nki_kernel(target: NeuronTarget, module_format, write_source) -> None:
    write_source()
    register_kernel(nki_rms_norm())
    module = lowered_for(target)
    assert "AwsNeuronCustomNativeKernel" in module.text()
    assert replace(target, module_format=module_format).compile(module).target == "trn2"


def test_a_kernel_without_its_file_is_refused(target: NeuronTarget, write_source) -> None:
    write_source()
    register_kernel(nki_rms_norm())
    with pytest.raises(CompileError, match="NCC_EVRF059"):
        target.compile(replace(lowered_for(target), files={}))


def test_a_custom_call_that_the_compiler_does_not_know_is_refused(target: NeuronTarget) -> None:
    module = lowered_for(target)
    buffer = io.BytesIO()
    with shared_context():
        renamed = ir.Module.parse(module.text().replace("AwsNeuronRmsNorm", "AwsNeuronSinkhorn"))
        renamed.operation.write_bytecode(buffer)
    unknown = replace(module, bytecode=buffer.getvalue())
    assert [finding.code for finding in check_module(unknown.bytecode, "trn2")] == ["EVRF015"]
    with pytest.raises(CompileError, match=r"NCC_EHCA005.*AwsNeuronSinkhorn"):
        target.compile(unknown)


@pytest.mark.parametrize(("text", "is_replaced"), [("", False), ("off", False), ("auto", True)])
def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch, text: str, is_replaced: bool) -> None:
    settings = Settings.from_environment({"DEEPINFER_NEURON_NKI": text})
    monkeypatch.setattr(neuronx, "settings", lambda: settings)
    assert ("AwsNeuronRmsNorm" in lowered_for(neuron_target("trn2")).text()) == is_replaced


def test_the_decode_step_passes_preflight_with_kernels(
    small: Path, monkeypatch: pytest.MonkeyPatch, nki_standin: None
) -> None:
    monkeypatch.setattr(neuronx, "settings", lambda: Settings(nki="auto"))
    report = run_preflight(small, [2], "trn2", "regions", max_context=40)
    assert report.passed, report.steps
    (step,) = report.steps
    assert step.operations["stablehlo.custom_call"] > 5
