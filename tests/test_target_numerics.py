"""Which fp8 range a model computes in that is compiled for a target."""

from __future__ import annotations

import pytest
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model import numerics
from deepinfer_neuron.model.numerics import Numerics, engine_numerics
from deepinfer_neuron.settings import Settings
from deepinfer_neuron.target_numerics import target_numerics


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
