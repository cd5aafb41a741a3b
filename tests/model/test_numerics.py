"""Which fp8 ranges there are."""

from __future__ import annotations

import pytest
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model.numerics import Numerics


def test_other_ranges_are_refused():
    with pytest.raises(ConfigError, match=r"fp8_max=300: expected one of 448.0, 240.0, 224.0"):
        Numerics(fp8_max=300)


def test_linears_without_quantised_inputs_have_no_range():
    assert Numerics(act_quant=False, fp8_max=224.0).linear_fp8_max is None
    assert Numerics(fp8_max=224.0).linear_fp8_max == 224.0
