"""The Trainium targets with a stand-in for their compiler, and every way in which it can fail."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from deepinfer_neuron import settings as settings_module
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.targets.flags import default_flags
from deepinfer_neuron.compiler.targets.neuron_compiler import find_compiler
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget
from deepinfer_neuron.compiler.targets.operation_lines import operation_lines
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.compiler.targets.table import TARGETS, find_target
from deepinfer_neuron.errors import CompileCancelledError, CompileError, ConfigError, DeviceError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.runtime.artifacts import TensorType
from deepinfer_neuron.runtime.neff.reader import read_neff
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.programs import COMPILER_LOG, PROGRAM, made_program, program_of
from deepinfer_neuron.runtime.store.store import ArtifactStore
from host_programs import trace
from neuron_compilers import compiler_processes, install_compiler

KEY = ArtifactKey(PROGRAM, {"target": "trn2"})


def lowered(function=lambda x, y: (x @ y).relu(), *inputs: torch.Tensor, **options: bool) -> LoweredModule:
    """The module of a function, whose line is 80 of moe.py; ``options`` differ from the target's own."""
    module = trace(function, *(inputs or (torch.zeros(2, 3), torch.zeros(3, 4))))
    for node in module.graph.nodes:
        node.stack_trace = 'File "model/moe.py", line 80, in route'
    return lower_graph(module, replace(NeuronTarget(default_flags("trn2")).lowering_options("fast"), **options))


MODULE = lowered()


def target(directory: Path, fault: str = "", **options) -> NeuronTarget:
    return NeuronTarget(default_flags("trn2"), install_compiler(directory / "bin", fault), **options)


def compile_into(store: ArtifactStore, chosen: NeuronTarget, module: LoweredModule = MODULE):
    return store.get_or_make(KEY, lambda: made_program(chosen.compile(module), "a test"))


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """The directory that compilations get their own directories in; nothing may stay there."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []
    assert compiler_processes(tmp_path / "bin") == []


@pytest.mark.parametrize("name", ["trn1", "trn2", "trn3"])
def test_a_module_becomes_a_program_for_each_target(name, tmp_path):
    chosen = NeuronTarget(default_flags(name), install_compiler(tmp_path / "bin"))
    artifact = chosen.compile(MODULE)
    neff = read_neff(artifact.payload, target=name, logical_core_size=chosen.flags.logical_core_size)
    assert [(one.name, one.size) for one in neff.tensors] == [("input0", 24), ("input1", 48), ("output0", 32)]
    assert "module.mlir" in [member.name for member in neff.members]
    assert artifact.target == chosen.name == name
    assert artifact.outputs == (TensorType(torch.float32, (2, 4)),)
    assert artifact.fingerprint == chosen.fingerprint()
    assert "Compiler status PASS" in artifact.log


def test_the_compiler_reads_either_format_and_the_fingerprint_says_which(tmp_path):
    compiler = install_compiler(tmp_path / "bin")
    chosen = NeuronTarget(default_flags("trn2"), compiler, module_format="hlo")
    artifact = chosen.compile(MODULE)
    assert artifact.outputs == (TensorType(torch.float32, (2, 4)),)
    assert "module.hlo.pb" in artifact.fingerprint
    assert artifact.fingerprint != NeuronTarget(default_flags("trn2"), compiler).fingerprint()


def test_equal_modules_become_equal_programs(tmp_path):
    assert target(tmp_path / "a").compile(MODULE).payload == target(tmp_path / "b").compile(MODULE).payload


def test_the_fingerprint_tells_versions_flags_targets_and_logical_cores_apart(tmp_path):
    compiler, newer = install_compiler(tmp_path / "bin"), install_compiler(tmp_path / "new", version="3.0.1.0+aa")
    flags = default_flags("trn2")
    chosen = [
        NeuronTarget(flags, compiler),
        NeuronTarget(flags, newer),
        NeuronTarget(replace(flags, optlevel=1), compiler),
        NeuronTarget(replace(flags, logical_core_size=1), compiler),
        NeuronTarget(default_flags("trn3"), compiler),
    ]
    assert len({one.fingerprint() for one in chosen}) == len(chosen)
    moved = NeuronTarget(flags, install_compiler(tmp_path / "elsewhere"), retries=0, limits=ProcessLimits(1.0))
    assert moved.fingerprint() == chosen[0].fingerprint()


@pytest.mark.parametrize(("name", "largest"), [("trn1", 240.0), ("trn2", 240.0), ("trn3", 448.0)])
def test_modules_hold_no_float8_and_no_64_bit_types(name, largest):
    options = NeuronTarget(default_flags(name)).lowering_options("fast")
    assert (options.float8, options.float64, options.int64, options.pad_single_row_dot) == (False,) * 4
    assert options.e4m3_max == largest


def test_exact_numerics_are_those_of_the_host():
    with pytest.raises(ConfigError, match="'exact' repeats eager PyTorch on this machine"):
        NeuronTarget(default_flags("trn2")).lowering_options("exact")


def test_the_log_is_stored_with_the_program(tmp_path):
    entry, outcome = compile_into(ArtifactStore(tmp_path / "store"), target(tmp_path))
    assert outcome == "made" and b"Compiler status PASS" in entry.read(COMPILER_LOG)
    assert program_of(entry).target == "trn2"


FAULTS = [
    *((f"signal={name}", name) for name in ("SIGSEGV", "SIGABRT", "SIGKILL", "SIGBUS", "SIGILL", "SIGFPE", "SIGTERM")),
    ("hang", "was killed after .*: timeout\n.*next: allow more seconds with DEEPINFER_NEURON_CC_TIMEOUT"),
    ("memory", "out of memory\n.*next: allow more with DEEPINFER_NEURON_CC_MEMORY_GB"),
    ("flood", r"too much output\n(.*\n)*.*next: find the operators"),
    ("garbage", r"ended with status 1\n(.*\n)*.*next: find the operators"),
    ("silent", "neuronx-cc ended with status 1\n  next: find the operators"),
    ("killed", "F137: neuronx-cc was forcibly killed\n.*meaning: the compiler was killed"),
    ("internal", r"NCC_ITRF901: TritiumFusion assertion error(.*\n)*.*status 70 in each of 2 tries"),
    ("half", "reported success without a program: module.neff: .* truncated"),
    ("foreign", "reported success without a program: module.neff: compiled for trn3, expected trn2"),
    ("none", "reported success without a program: it wrote no module.neff"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_a_fault_is_named_and_leaves_nothing_but_its_record(fault, message, tmp_path):
    limits = ProcessLimits(seconds=4.0 if fault == "hang" else 120.0, memory_bytes=400 << 20, output_bytes=1 << 20)
    store = ArtifactStore(tmp_path / "store")
    with pytest.raises(CompileError, match=message) as caught:
        compile_into(store, target(tmp_path, fault, limits=limits, retries=1))
    assert str(caught.value).startswith("trn2: ")
    assert "neuronx-cc compile module.mlir --framework=XLA --target=trn2" in str(caught.value)
    assert store.entries() == [] and store.get(KEY) is None
    (failure,) = store.failures()
    # What a flood prints before it is noticed is too long for the record.
    assert failure.output[:1000] == caught.value.log[:1000] and failure.output[-1000:] == caught.value.log[-1000:]


def test_a_compiler_that_fails_now_and_then_is_asked_again_and_no_failure_is_kept(tmp_path):
    store = ArtifactStore(tmp_path / "store")
    entry, outcome = compile_into(store, target(tmp_path, "flake=2", retries=2))
    assert outcome == "made" and (tmp_path / "bin" / "runs").read_text() == "3"
    assert store.failures() == []
    assert compile_into(store, target(tmp_path, "internal"))[1] == "hit"
    assert program_of(entry).payload == target(tmp_path).compile(MODULE).payload


def test_retries_end(tmp_path):
    with pytest.raises(CompileError, match="in each of 2 tries") as caught:
        target(tmp_path, "flake=2", retries=1).compile(MODULE)
    assert caught.value.log.count("NCC_ITRF901") == 2


def test_a_refusal_is_final_and_names_the_models_line(tmp_path):
    module = lowered(lambda x: torch.sort(x)[0], torch.zeros(2, 3), sort=True)
    with pytest.raises(CompileError) as caught:
        target(tmp_path, retries=5).compile(module)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("trn2: NCC_EVRF029 at moe.py:80: Operation sort is not supported on trn2.")
    assert any(line.startswith("  next: ") for line in lines)
    assert "tries" not in lines[-1] and "status 70" in lines[-1]
    assert "exitcode=70" in caught.value.log


def test_the_lines_of_an_operation_are_found_in_the_module():
    assert operation_lines(MODULE.bytecode, "dot-general") == ("moe.py:80",)
    assert operation_lines(MODULE.bytecode, "sort") == ()


def test_another_thread_can_cancel_and_nothing_is_stored(tmp_path):
    chosen, store = target(tmp_path, "hang"), ArtifactStore(tmp_path / "store")
    chosen.fingerprint()
    timer = threading.Timer(1.0, chosen.cancelled.set)
    timer.start()
    with pytest.raises(CompileCancelledError, match="trn2: cancelled after"):
        compile_into(store, chosen)
    timer.join()
    assert store.entries() == [] and store.failures() == []


def test_a_missing_compiler_is_no_failure_of_the_program(tmp_path):
    store = ArtifactStore(tmp_path / "store")
    with pytest.raises(ConfigError, match=r"nowhere: no such compiler; install it from AWS's own.*DEEPINFER_NEURON_CC"):
        compile_into(store, NeuronTarget(default_flags("trn2"), tmp_path / "nowhere"))
    assert store.failures() == []


def test_a_placeholder_is_not_taken_for_the_compiler(tmp_path):
    path = tmp_path / "neuronx-cc"
    path.write_text("#!/bin/sh\necho placeholder\n")
    path.chmod(0o755)
    with pytest.raises(ConfigError, match=r"printed 'placeholder', expected 'NeuronX Compiler version'.*placeholder"):
        find_compiler(path)


def test_the_compiler_on_the_search_path_is_found_and_a_new_one_is_asked_again(tmp_path, monkeypatch):
    first = install_compiler(tmp_path / "bin", version="2.1.0.0+a")
    monkeypatch.setenv("PATH", str(first.parent), prepend=":")
    assert find_compiler(None).version == "2.1.0.0+a"
    install_compiler(tmp_path / "bin", version="2.22.0.0+b")
    assert find_compiler(None).version == "2.22.0.0+b"


def test_the_environment_variables_are_used(tmp_path, monkeypatch):
    compiler = install_compiler(tmp_path / "bin")
    environment = {
        "DEEPINFER_NEURON_CC": str(compiler),
        "DEEPINFER_NEURON_CC_TIMEOUT": "60",
        "DEEPINFER_NEURON_CC_MEMORY_GB": "3",
        "DEEPINFER_NEURON_CC_RETRIES": "4",
        "DEEPINFER_NEURON_MODULE_FORMAT": "hlo",
        "NEURON_LOGICAL_NC_CONFIG": "1",
        "NEURON_CC_FLAGS": "-O1",
    }
    chosen = settings_module.Settings.from_environment(environment)
    for module in ("neuronx", "neuron_fingerprint", "process"):
        monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: chosen)
    found = find_target("trn2")
    assert isinstance(found, NeuronTarget)
    assert found.compiler == compiler
    assert (found.limits.seconds, found.limits.memory_bytes, found.retries) == (60, 3 << 30, 4)
    assert (found.flags.logical_core_size, found.flags.optlevel, found.module_format) == (1, 1, "hlo")


@pytest.mark.slow
def test_every_region_of_a_decode_step_is_compiled_for_trn1(nano_a, tmp_path, monkeypatch):
    geometry = CacheGeometry.for_requests(max_context=96, max_requests=3, block_tokens=8)
    model = load_model(open_checkpoint(nano_a), geometry, target_numerics("trn1"))
    chosen = NeuronTarget(default_flags("trn1"), install_compiler(tmp_path / "bin"))
    monkeypatch.setattr("deepinfer_neuron.compiler.api.find_target", lambda name: chosen)
    store, lines = ArtifactStore(tmp_path / "store"), []
    with pytest.raises(DeviceError, match="programs for trn1 run on Neuron cores: set DEEPINFER_NEURON_DEVICE"):
        compile_decode(model, [2], target="trn1", mode="regions", store=store, progress=lines.append)
    assert lines[-1].startswith("batch 2: compiled in")
    programs = store.entries(PROGRAM)
    assert len(programs) > 5 and {manifest.metadata["target"] for manifest, _ in programs} == {"trn1"}


def test_a_target_needs_no_compiler_until_it_compiles(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert [find_target(name).name for name in TARGETS] == ["host", "iree", "trn1", "trn2", "trn3"]
    with pytest.raises(ConfigError, match="neuronx-cc: no such compiler"):
        find_target("trn2").fingerprint()
