import math

import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.accuracy.metrics import logit_error, one_minus_cosine, relative_error, ulp_distance
from torch import Tensor


def test_equal_logits_have_no_error(generator):
    logits = torch.randn(3, 50, generator=generator)
    error = logit_error(logits, logits.clone())
    assert (error.argmax, error.rel, error.one_minus_cos, error.kl, error.max) == (1, 0, 0, 0, 0)


def test_logit_error_reports_the_worst_row():
    golden = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    error = logit_error(torch.tensor([[3.0, 4.0], [3.0, 2.0]]), golden)
    assert error.argmax == 0.5
    assert error.rel == pytest.approx(1.5)
    assert error.max == 3
    assert error.one_minus_cos == pytest.approx(1 - 2 / math.sqrt(13))
    p, q = golden[1].double().softmax(-1), torch.tensor([3.0, 2.0]).double().softmax(-1)
    assert error.kl == pytest.approx(float((p * (p / q).log()).sum()))


def test_relative_error():
    assert relative_error(torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0])) == pytest.approx(0.2)
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
    assert relative_error(torch.ones(2), torch.zeros(2)) == math.inf


def test_cosine_of_nearly_parallel_vectors_keeps_its_digits():
    angle = 1e-9
    vectors = torch.tensor([[math.cos(angle), math.sin(angle)]], dtype=torch.float64)
    straight = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert one_minus_cosine(vectors, straight).item() == pytest.approx(angle**2 / 2, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ulps_count_representable_values(dtype):
    x = torch.tensor([1.0, -1.0, 0.0, 256.0], dtype=dtype)
    up: Tensor = x + x.abs() * torch.finfo(dtype).eps
    assert ulp_distance(up, x).tolist() == [1, 2, 0, 1]
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    smallest = torch.tensor([tiny, -tiny, -0.0], dtype=dtype)
    assert ulp_distance(smallest, torch.zeros(3, dtype=dtype)).tolist() == [1, 1, 0]


def test_unlike_tensors_are_refused():
    with pytest.raises(InputError, match="shapes differ"):
        logit_error(torch.zeros(1, 2), torch.zeros(1, 3))
    with pytest.raises(InputError, match="one float dtype"):
        ulp_distance(torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16))
