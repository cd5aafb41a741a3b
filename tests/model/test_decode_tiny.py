"""Decode against prefill at the released window of 128 tokens, past the top-k and candidate limits."""

import pytest
import torch
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model

NUMERICS = Numerics(torch.float32, kv_quant=False, act_quant=False)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    directory = make_checkpoint(tmp_path_factory.mktemp("tiny") / "checkpoint")
    checkpoint = open_checkpoint(directory)
    geometry = CacheGeometry.for_requests(max_context=768, max_requests=2)
    return RequestPool(load_model(checkpoint, geometry, NUMERICS), EngramLookup(checkpoint, NUMERICS))


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 127, 128, 129, 300, 700])
def test_decode_continues_prefill(pool, length):
    token_ids = torch.randint(3, 128000, (length + 4,), generator=torch.Generator().manual_seed(length)).tolist()
    whole_request, whole = pool.add(token_ids)
    request, logits = pool.add(token_ids[:length])
    for token in token_ids[length:]:
        logits = pool.step([request], [token])[0]
    pool.remove(whole_request)
    pool.remove(request)
    assert (logits - whole).abs().max() <= 1e-4
