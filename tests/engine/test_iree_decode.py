"""The whole decode step through IREE: real programs of a real compiler, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.targets.iree import IreeTarget
from deepinfer_neuron.engine.decode_source import DecodeSource
from deepinfer_neuron.engine.loading import LoadedDecode, load_decode
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)
STEPS = 6


@pytest.mark.parametrize(
    ("mode", "batch"),
    [
        pytest.param("regions", 1, marks=pytest.mark.slow),
        pytest.param("whole", 2, marks=pytest.mark.slow),
        pytest.param("whole", 1, marks=pytest.mark.slow),
        pytest.param("regions", 2, marks=pytest.mark.slow),
    ],
)
def test_a_step_has_eagers_tokens_and_logits_and_updates_the_caches_in_place(nano_a, mode, batch):
    checkpoint = open_checkpoint(nano_a)
    pool = RequestPool(load_model(checkpoint, GEOMETRY), EngramLookup(checkpoint, Numerics()))
    requests = [pool.add(list(range(5, 5 + length)))[0] for length in (40, 17)[:batch]]
    runner = compile_decode(pool.model, [batch], target="iree", mode=mode)
    assert {one.artifact.target for one in runner.executables.values()} == {"iree"}
    cache = pool.model.cache
    before = cache.snapshot()
    errors = []
    for step in range(STEPS):
        inputs = pool.step_inputs(requests, [60 + step + row for row in range(batch)])
        with torch.no_grad():
            expected = pool.model(**inputs).clone()
        eager_rows = {name: written_rows(root, before[name]) for name, root in cache.snapshot().items()}
        cache.restore(before)
        actual = runner(**inputs).clone()
        assert {name: written_rows(root, before[name]) for name, root in cache.snapshot().items()} == eager_rows
        cache.restore(before)
        assert torch.equal(actual.argmax(-1), expected.argmax(-1))
        errors.append(float((actual - expected).norm() / expected.norm()))
    # One bfloat16 that is rounded the other way moves the logits by some percent; most steps have none.
    assert max(errors) < 0.1
    assert sorted(errors)[STEPS // 3] < 1e-6


@pytest.mark.slow
def test_a_store_is_filled_and_loaded_again_without_compiling(nano_a, tmp_path, monkeypatch):
    options = {"batch_sizes": (1,), "max_context": 64, "mode": "regions", "target": "iree"}
    first = load_decode(nano_a, tmp_path / "store", **options)
    assert first.compiled
    expected = decode(first)
    assert (expected[1:] != expected[:-1]).any(-1).all()

    monkeypatch.setattr(IreeTarget, "compile", lambda target, module: pytest.fail("compiled"))
    monkeypatch.setattr(DecodeSource, "model", property(lambda source: pytest.fail("the model was loaded")))
    again = load_decode(nano_a, tmp_path / "store", **options, on_miss="error")
    assert not again.compiled
    assert {one.artifact.target for one in again.runner.executables.values()} == {"iree"}
    assert again.report.programs == len(again.runner.plan.programs) > 1
    assert torch.equal(decode(again), expected)


def decode(loaded: LoadedDecode) -> torch.Tensor:
    """Logits of a request's first steps, from empty caches."""
    request = loaded.open()
    return torch.cat([loaded.step([request], [token]).clone() for token in (3, 7, 13)])


def written_rows(root: torch.Tensor, before: torch.Tensor) -> list[int]:
    return (root != before).flatten(1).any(-1).nonzero().flatten().tolist()
