"""The tiny model through both stand-ins, compiler and runtime: every bit of the same programs on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.targets import neuronx, table
from deepinfer_neuron.compiler.targets.neuronx import neuron_target
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.settings import Settings
from neuron_compilers import install_compiler
from nrt_standin import CompiledStep, Standin

GEOMETRY = CacheGeometry.for_requests(max_context=320, max_requests=8)
LENGTHS = (200, 150, 40, 17, 130, 5, 1, 64)
SIZES = (1, 2, 4, 8)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> RequestPool:
    """The model in the fp8 range of trn2, with eight prefilled requests; some reach past the window of 128 tokens."""
    directory = make_checkpoint(tmp_path_factory.mktemp("tiny") / "checkpoint")
    checkpoint, numerics = open_checkpoint(directory), target_numerics("trn2")
    return RequestPool(load_model(checkpoint, GEOMETRY, numerics), EngramLookup(checkpoint, numerics))


@pytest.fixture
def with_compiler(on_neuron: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """The machine with the real target, which runs the stand-in for neuronx-cc in processes of its own."""
    compiler = install_compiler(tmp_path / "compiler")
    monkeypatch.setattr(neuronx, "settings", lambda: Settings(compiler=compiler))
    monkeypatch.setitem(table.TARGETS, "trn2", lambda: neuron_target("trn2"))
    return on_neuron


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["regions", "whole"])
def test_every_batch_size_gives_the_bits_of_the_host(pool: RequestPool, with_compiler: Standin, mode: str):
    cache = pool.model.cache
    cache.reset()
    generator = torch.Generator().manual_seed(7)
    prompts = [torch.randint(3, 128000, (length,), generator=generator).tolist() for length in LENGTHS]
    requests = [pool.add(prompt)[0] for prompt in prompts]
    inputs = [pool.step_inputs(requests[:size], list(range(60, 60 + size))) for size in SIZES]
    core = compile_decode(pool.model, SIZES, mode=mode)
    assert all(one.artifact.fingerprint.startswith("neuronx-cc 2.27.") for one in core.executables.values())
    before = cache.snapshot()
    on_core = [core(**one).clone() for one in inputs]
    core.read_caches()
    written = cache.snapshot()
    cache.restore(before)
    host = CompiledStep.of(core).on_host(with_compiler, pool.model)
    for one, logits in zip(inputs, on_core, strict=True):
        assert torch.equal(host(**one), logits)
        assert logits.isfinite().all()
    for name, root in cache.snapshot().items():
        assert torch.equal(root, written[name])
        assert not torch.equal(root, before[name])
    for request in requests:
        pool.remove(request)
