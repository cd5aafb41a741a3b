import math

import pytest
import torch
from deepinfer_neuron.model.config import RopeScaling
from deepinfer_neuron.model.reference import kernels

YARN = RopeScaling(factor=16, beta_fast=32, beta_slow=1, original_max_position_embeddings=65536)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize(
    ("ours", "exact"),
    [
        (kernels.exp, torch.exp),
        (kernels.sigmoid, torch.sigmoid),
        (kernels.silu, torch.nn.functional.silu),
        (kernels.softplus, torch.nn.functional.softplus),
    ],
)
def test_exponential_family_is_rounded_once(ours, exact):
    x = torch.cat([torch.linspace(-80, 80, 4001), torch.tensor([0.0, -0.0, 20.0, 20.000002, 1000.0, -1000.0])])
    assert torch.equal(ours(x), exact(x.double()).float())


def test_additions_keep_their_order():
    terms = [torch.tensor(value) for value in (1.0, 2.0**24, -(2.0**24), 1.0)]
    assert kernels.add_in_order(terms) == 1.0  # the first 1 is lost beside 2**24


def test_rms_norm(generator):
    x, weight = torch.randn(5, 64, generator=generator), torch.randn(64, generator=generator)
    expected = torch.nn.functional.rms_norm(x.double(), (64,), weight.double(), 1e-20)
    assert torch.allclose(kernels.rms_norm(x, weight, 1e-20), expected.float(), rtol=1e-6)
    assert kernels.rms_norm(x.bfloat16(), weight, 1e-20).dtype == torch.bfloat16


def test_rope_is_a_complex_rotation_and_its_inverse_undoes_it(generator):
    x, positions = torch.randn(6, 3, 40, generator=generator), torch.tensor([0, 1, 2, 100, 1000, 4095])
    frequencies = kernels.rope_frequencies(16, 10000, None)
    turned = kernels.rope(x, positions, frequencies)
    pairs = torch.view_as_complex(x[..., 24:].double().unflatten(-1, (8, 2)).contiguous())
    angles = (positions.float()[:, None] * frequencies).double()
    expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[:, None]).flatten(-2)
    assert torch.equal(turned[..., :24], x[..., :24])
    assert torch.allclose(turned[..., 24:].double(), expected, atol=1e-6)
    assert torch.allclose(kernels.rope(turned, positions, frequencies, inverse=True), x, atol=1e-6)


def test_yarn_leaves_fast_pairs_and_slows_the_rest_sixteenfold():
    plain, scaled = (kernels.rope_frequencies(64, 160000, scaling) for scaling in (None, YARN))
    ratio = scaled / plain
    # The released values interpolate between pairs 15 and 25.
    assert torch.equal(ratio[:16], torch.ones(16))
    assert torch.allclose(ratio[25:], torch.full((7,), 1 / 16))
    assert torch.all(ratio[15:26].diff() < 0)


def dense_attention(query, kv, sink, indices, scale):
    """Softmax with the sink as one more key of value zero, in float64, without blocks."""
    rows = kv[indices.clamp_min(0)].double()
    scores = (query.double() @ rows.transpose(1, 2)) * scale
    scores = scores.masked_fill(indices[:, None] < 0, -torch.inf)
    with_sink = torch.cat([scores, sink.double().expand(len(query), -1)[..., None]], dim=-1)
    return with_sink.softmax(-1)[..., :-1] @ rows


def attention_case(generator, queries=70, slots=150):
    query = torch.randn(queries, 3, 32, generator=generator)
    kv = torch.randn(90, 32, generator=generator)
    indices = torch.randint(-1, 90, (queries, slots), generator=generator)
    return query, kv, torch.randn(3, generator=generator), indices


def test_sparse_attention_is_softmax_with_a_sink(generator):
    query, kv, sink, indices = attention_case(generator)
    ours = kernels.sparse_attention(query, kv, sink, indices, 0.2)
    assert torch.allclose(ours.double(), dense_attention(query, kv, sink, indices, 0.2), atol=2e-6)


def test_sparse_attention_in_bfloat16_rounds_probabilities_only(generator):
    query, kv, sink, indices = attention_case(generator)
    query, kv = query.bfloat16(), kv.bfloat16()
    ours = kernels.sparse_attention(query, kv, sink, indices, 0.2)
    expected = dense_attention(query, kv, sink, indices, 0.2)
    assert ours.dtype == torch.bfloat16
    assert (ours.double() - expected).norm() / expected.norm() < 4e-3


def test_a_row_of_holes_is_exactly_zero_and_holes_are_neutral(generator):
    query, kv, sink, indices = attention_case(generator, queries=4)
    indices[1] = -1
    padded = torch.cat([indices, torch.full((4, 200), -1)], dim=1)
    ours = kernels.sparse_attention(query, kv, sink, indices, 0.2)
    assert torch.equal(ours[1], torch.zeros(3, 32))
    assert torch.equal(kernels.sparse_attention(query, kv, sink, padded, 0.2), ours)


def test_queries_do_not_depend_on_their_chunk(generator, monkeypatch):
    query, kv, sink, indices = attention_case(generator)
    ours = kernels.sparse_attention(query, kv, sink, indices, 0.2)
    monkeypatch.setattr(kernels, "ATTENTION_QUERY_CHUNK", 7)
    assert torch.allclose(kernels.sparse_attention(query, kv, sink, indices, 0.2), ours, atol=1e-6)


def test_hyper_connection_split(generator):
    mixes, base = torch.randn(9, 24, generator=generator), torch.randn(24, generator=generator)
    scale = torch.tensor([0.5, 2.0, 1.5])
    pre, post, comb = kernels.hyper_connection_split(mixes, scale, base, 4, 20, 1e-6)
    assert torch.allclose(pre, torch.sigmoid(mixes[:, :4] * 0.5 + base[:4]) + 1e-6)
    assert torch.allclose(post, 2 * torch.sigmoid(mixes[:, 4:8] * 2 + base[4:8]))
    assert torch.allclose(comb.sum(1), torch.ones(9, 4), atol=1e-5)  # columns were normalised last
    assert torch.allclose(comb.sum(2), torch.ones(9, 4), atol=2e-2)


def test_one_sinkhorn_iteration_by_hand():
    mixes = torch.zeros(1, 8)
    mixes[0, 4:] = torch.tensor([math.log(3.0), 0.0, 0.0, 0.0])
    _, _, comb = kernels.hyper_connection_split(mixes, torch.ones(3), torch.zeros(8), 2, 1, 0.0)
    # Rows first: [3/4, 1/4], [1/2, 1/2]; then columns of sums 5/4 and 3/4.
    assert torch.allclose(comb[0], torch.tensor([[0.6, 1 / 3], [0.4, 2 / 3]]))


def test_index_scores_clip_before_weighting():
    query = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    keys = torch.tensor([[2.0, -3.0], [-2.0, 3.0]])
    scores = kernels.index_scores(query, keys, torch.tensor([[5.0, -1.0]]))
    assert scores.tolist() == [[10.0, -3.0]]


def test_index_scores_round_every_step_in_bfloat16():
    query, keys = torch.ones(1, 2, 3, dtype=torch.bfloat16), torch.tensor([[1.0, 1 / 256, 1 / 512]]).bfloat16()
    weights = torch.tensor([[1.0, 3.0]]).bfloat16()
    # 1 + 3/512 rounds to 1 + 1/128; three times that to 3.03125 (a tie to even); the sum of 4.0390625 to 4.03125.
    assert kernels.index_scores(query, keys, weights).item() == 4.03125


def test_equal_scores_go_to_the_lower_index():
    scores = torch.tensor([[1.0, 3.0, -0.0, 3.0, 0.0, -torch.inf, 3.0]])
    assert kernels.top_indices(scores, 5).tolist() == [[1, 3, 6, 0, 2]]
    assert kernels.top_indices(scores, 99).tolist() == [[1, 3, 6, 0, 2, 4, 5]]
