"""Which fp8 range a model computes in that is compiled for a target."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.errors import ConfigError, GraphError
from deepinfer_neuron.model import numerics
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.kernels.experts import mix_experts
from deepinfer_neuron.model.kernels.quantization import quantize_fp4_fine, quantize_fp8
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics, engine_numerics, target_numerics
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.preflight.step import StepCheck, check_steps
from deepinfer_neuron.runtime.slots import SlotSpec
from deepinfer_neuron.settings import Settings


@pytest.fixture
def asked(monkeypatch):
    """Sets what the environment asks for."""
    return lambda fp8_max: monkeypatch.setattr(numerics, "settings", lambda: Settings(fp8_max=fp8_max))


@pytest.mark.parametrize(("target", "fp8_max"), [("host", 448), ("trn1", 224), ("trn2", 224), ("trn3", 448)])
def test_the_range_is_the_target_s(asked, target, fp8_max):
    asked(None)
    assert target_numerics(target) == Numerics(fp8_max=fp8_max)


@pytest.mark.parametrize(("target", "fp8_max"), [("host", 224.0), ("host", 240.0), ("host", 448.0), ("trn2", 240.0)])
def test_the_environment_s_range_goes_before(asked, target, fp8_max):
    asked(fp8_max)
    assert target_numerics(target).fp8_max == fp8_max


def test_a_range_that_the_target_does_not_have_is_refused(asked):
    asked(448.0)
    with pytest.raises(ConfigError, match="DEEPINFER_NEURON_FP8_MAX=448: fp8 ends at 240 on trn2; unset it"):
        target_numerics("trn2")


@pytest.mark.parametrize("fp8_max", [None, 224.0])
def test_the_host_s_need_no_table_of_targets(asked, fp8_max):
    asked(fp8_max)
    assert engine_numerics() == target_numerics("host")


class Quantiser(torch.nn.Module):
    """One operator on rows of 32."""

    decode_slots = (SlotSpec("x", torch.float32, (32,)),)

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, x):
        return self.operator(x)


def check_one(model: torch.nn.Module, batch_size: int, target: str) -> StepCheck:
    (check,) = check_steps(model, [batch_size], find_target(target), "whole")
    return check


QUANTISERS = ("kv_quant", "act_quant")
BEYOND = (
    r"(?s){0}.default at tests/model/test_target_numerics.py:\d+ "
    r"\(1 in .* up to {1}, which ends at 240 on {2}.*fp8_max=224"
)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("operator", [quantize_fp8, quantize_fp4_fine])
def test_rounding_beyond_the_target_s_range_is_refused_with_the_line(operator, target):
    name = operator._schema.name.replace("::", ".")
    with pytest.raises(GraphError, match=BEYOND.format(name, 448, target)):
        compile_decode(Quantiser(operator), [2], target=target)


@pytest.mark.parametrize(("fp8_max", "target"), [(240.0, "trn2"), (224.0, "trn1"), (448.0, "trn3"), (None, "trn2")])
def test_rounding_within_the_range_passes(fp8_max, target):
    rounds = (lambda x: x + 1) if fp8_max is None else (lambda x: quantize_fp8(x, fp8_max))
    assert check_one(Quantiser(rounds), 2, target).findings == ()


def mix(fp8_max):
    def mix_one(x):
        ids, shares = torch.zeros(2, 1, dtype=torch.int32), torch.ones(2, 1)
        weights = [torch.zeros(2, 32, 32) for _ in range(3)]
        return mix_experts(x, ids, shares, *weights, 7.0, fp8_max)

    return Quantiser(mix_one)


def test_operators_round_up_to_what_they_are_given_and_none_is_no_rounding():
    assert check_one(mix(None), 2, "trn2").findings == ()
    with pytest.raises(GraphError, match=BEYOND.format("deepinfer.mix_experts", 448, "trn2")):
        check_one(mix(448.0), 2, "trn2")


@pytest.mark.parametrize("parts", [{}, *(pytest.param({off: False}, marks=pytest.mark.slow) for off in QUANTISERS)])
def test_a_model_with_the_weights_of_another_range_is_refused(nano_a, parts):
    """Weights are halved exactly if the model computes below 448."""
    geometry = CacheGeometry.for_requests(max_context=40, max_requests=2, block_tokens=8)
    model = load_model(open_checkpoint(nano_a), geometry, Numerics(**parts))
    assert not model.numerics.rescales_weights
    with pytest.raises(
        GraphError, match=r"model/attention.py:\d+ \(\d+ in the step\) rounds to float8 up to 448"
    ) as error:
        compile_decode(model, [1], target="trn2", mode="regions")
    assert "target_numerics('trn2') has it, which also brings its float8 weights into that range" in str(error.value)
