"""Which arguments ``compile_decode`` takes for which kind of model."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest
import torch
from deepinfer_neuron import SlotSpec, compile_decode
from deepinfer_neuron.errors import CaptureError, ConfigError
from hugging_face_models import decoder


class Double(torch.nn.Module):
    decode_slots = (SlotSpec("x", torch.float32, (2,)),)

    def forward(self, x):
        return x * 2


def test_a_module_with_slots_takes_no_sizes_of_caches():
    with pytest.raises(ConfigError, match=r"Double is no transformers model: .* max_context"):
        compile_decode(Double(), [1], max_context=4)


def test_a_transformers_model_needs_max_context_and_has_no_identity():
    model = decoder("llama", num_hidden_layers=1)
    with pytest.raises(ConfigError, match=r"LlamaForCausalLM .* say with max_context"):
        compile_decode(model, [1])
    with pytest.raises(ConfigError, match="leave identity out"):
        compile_decode(model, [1], max_context=4, identity={})


def test_a_transformers_model_with_slots_of_its_own_is_taken_as_a_module():
    model = decoder("llama", num_hidden_layers=1)
    model.decode_slots = ()
    with pytest.raises(CaptureError, match="declares no decode_slots"):
        compile_decode(model, [1])


def test_a_module_with_slots_is_compiled_without_importing_transformers(monkeypatch):
    for name in [one for one in sys.modules if one.partition(".")[0] == "transformers" or ".huggingface" in one]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)  # importing it now raises
    monkeypatch.delitem(sys.modules, "deepinfer_neuron.engine.compiling")
    compiling = import_module("deepinfer_neuron.engine.compiling")
    assert compiling.compile_decode(Double(), [1])(x=torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
