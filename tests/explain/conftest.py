from __future__ import annotations

import explained_steps
import pytest
from deepinfer_neuron.explain.step import ExplainedStep


@pytest.fixture
def layered_step() -> ExplainedStep:
    return explained_steps.layered_step()
