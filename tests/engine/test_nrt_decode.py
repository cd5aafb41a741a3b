"""The decode model through the Neuron runtime's interface: every bit of the same programs on the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.engine.loading import LoadedDecode, load_decode
from deepinfer_neuron.model.accuracy.golden import write_golden
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.runtime.store.store import ArtifactStore
from neuron_compilers import install_compiler
from nrt_standin import CompiledStep, Standin
from typer.testing import CliRunner

OPTIONS = {"batch_sizes": (1,), "max_context": 64, "mode": "regions"}
TOKENS = (3, 7, 13)


def decode(loaded: LoadedDecode) -> torch.Tensor:
    """Logits of a few steps of one request, from empty caches."""
    request = loaded.open()
    return torch.stack([loaded.step([request], [token]).clone() for token in TOKENS])


def pool_of(directory: Path, geometry: CacheGeometry) -> RequestPool:
    checkpoint, numerics = open_checkpoint(directory), target_numerics("trn2")
    return RequestPool(load_model(checkpoint, geometry, numerics), EngramLookup(checkpoint, numerics))


def test_a_step_is_loaded_from_a_store_and_equals_the_host(small: Path, tmp_path: Path, on_neuron: Standin):
    store = ArtifactStore(tmp_path / "store")
    first = load_decode(small, store, **OPTIONS)
    assert first.compiled
    expected = decode(first)
    again = load_decode(small, store, **OPTIONS, on_miss="error")
    assert not again.compiled
    before = on_neuron.executions
    assert torch.equal(decode(again), expected)
    assert on_neuron.executions - before == len(TOKENS) * len(again.runner.plan.replays[0].regions)
    pool = pool_of(small, CacheGeometry.for_requests(64, 1))
    host = CompiledStep.of(again.runner).on_host(on_neuron, pool.model)
    assert torch.equal(decode(replace(again, runner=host, table=pool)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["regions", "whole"])
def test_every_batch_size_equals_the_host_and_caches_can_be_read_back(nano_a: Path, on_neuron: Standin, mode):
    pool = pool_of(nano_a, CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8))
    requests = [pool.add(list(range(5, 5 + length)))[0] for length in (40, 17, 1)]
    inputs = [pool.step_inputs(requests[:live], [60 + live] * live) for live in (3, 1, 2)]
    core = compile_decode(pool.model, (1, 2, 4), mode=mode)
    before = pool.model.cache.snapshot()
    on_core = [core(**one).clone() for one in inputs]
    for name, root in pool.model.cache.snapshot().items():
        assert torch.equal(root, before[name])
    host = CompiledStep.of(core).on_host(on_neuron, pool.model)
    for one, logits in zip(inputs, on_core, strict=True):
        assert torch.equal(host(**one), logits)
    expected = pool.model.cache.snapshot()
    core.read_caches()
    for name, root in pool.model.cache.snapshot().items():
        assert torch.equal(root, expected[name])
        assert not torch.equal(root, before[name])


RUN = """
import sys
from pathlib import Path
directory, helpers, *arguments = sys.argv[1:]
sys.path.insert(0, helpers)
from nrt_standin import Standin
from deepinfer_neuron.cli.app import main
standin = Standin(Path(directory))
main(arguments, standalone_mode=False)
print("executions", standin.executions)
print("notes", standin.notes())
"""


@pytest.mark.slow
def test_prompts_follow_the_golden_ones_with_stand_ins_for_compiler_and_runtime(nano_a: Path, tmp_path: Path):
    """Nothing is replaced inside the process: what a person types on a Trainium, with the same variables."""
    checkpoint, report = tmp_path / "nano", tmp_path / "report.json"
    shutil.copytree(nano_a, checkpoint)
    write_golden(open_checkpoint(checkpoint), checkpoint / "golden.safetensors", prompts={"one": [5, 6, 7]}, steps=3)
    variables = {
        "DEEPINFER_NEURON_DEVICE": "neuron",
        "DEEPINFER_NEURON_LIBNRT": str(tmp_path / "libnrt.so.1"),
        "DEEPINFER_NEURON_CC": str(install_compiler(tmp_path / "compiler")),
    }
    helpers = Path(__file__).parents[1] / "helpers"
    words = [tmp_path, helpers, "run", checkpoint, "--mode", "regions", "--json", report]
    command = [sys.executable, "-c", RUN, *map(str, words)]
    result = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "notes []" in result.stdout
    assert "executions 0" not in result.stdout
    written = json.loads(report.read_text())
    assert written["options"]["target"] == "trn2"
    assert max(row["error"]["rel"] for row in written["comparison"]["logits"]) < 0.3


@pytest.mark.slow
def test_the_demo_alternates_eager_and_compiled_steps_on_a_core(nano_a: Path, tmp_path: Path, on_neuron: Standin):
    checkpoint, report = tmp_path / "nano", tmp_path / "report.json"
    shutil.copytree(nano_a, checkpoint)
    prompts = {"one": [5, 6, 7], "two": [9, 8, 7, 6, 5]}
    write_golden(open_checkpoint(checkpoint), checkpoint / "golden.safetensors", prompts=prompts, steps=3)
    words = ["demo", "--dir", checkpoint, "--batch-sizes", "1,2", "--mode", "regions", "--json", report]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert on_neuron.executions > 0
    results = json.loads(report.read_text())["compiled"]
    assert [one["batch_size"] for one in results] == [1, 2]
    for one in results:
        assert one["rel_rms_to_eager"] < 0.3
        assert one["teacher_forced_logits_rel"] < 0.3
        assert 0 <= one["teacher_forced_mismatch"] < 0.5
