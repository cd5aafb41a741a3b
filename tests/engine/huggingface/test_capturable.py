"""The copy that is captured shares the weights of the model and nothing else."""

from __future__ import annotations

from deepinfer_neuron.engine.huggingface.capturable import EXPERTS, capturable_copy
from hugging_face_models import decoder


def test_the_model_is_left_as_it_was():
    model = decoder("mixtral", num_hidden_layers=1).train()
    implementation = model.get_experts_implementation()
    copied = capturable_copy(model)
    assert not copied.training and copied.get_experts_implementation() == {"": EXPERTS}
    assert model.training and model.get_experts_implementation() == implementation != {"": EXPERTS}
    assert not [module for module in model.modules() if "forward" in vars(module)]


def test_every_parameter_and_buffer_is_shared():
    model = decoder("mixtral", num_hidden_layers=1)
    model.register_buffer("kept", model.lm_head.weight.detach().clone())
    copied = capturable_copy(model)
    for kind in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(copied, kind)()), dict(getattr(model, kind)())
        assert ours.keys() == theirs.keys() and all(ours[name] is theirs[name] for name in ours)
