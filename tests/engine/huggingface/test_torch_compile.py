"""``torch.compile`` of ``transformers`` models gives what eager PyTorch gives."""

from __future__ import annotations

import pytest
import torch
from hugging_face_models import decoder
from hugging_face_zoo import ZOO
from torch import Tensor, nn
from torch._dynamo.utils import counters
from transformers import CompileConfig

SAMPLE = ("bloom", "mixtral")
LEFT_PADDED = torch.tensor([[0, 0, 5, 9, 3], [8, 2, 7, 7, 1]])
MASK = (LEFT_PADDED > 0).long()


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    counters.clear()


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="deepinfer_neuron", fullgraph=True)


def logits_of(output) -> Tensor:
    return output["logits"] if "logits" in output else output["last_hidden_state"]


@torch.no_grad()
def check_family(name: str, **changes: int) -> None:
    model, inputs = ZOO[name].model(**changes), ZOO[name].inputs()
    actual, expected = logits_of(compiled(model)(*inputs)), logits_of(model(*inputs))
    spread = float(expected.std())
    assert spread > 1e-3, "logits that are all the same show little"
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4 * spread)
    assert counters["deepinfer_neuron"]["programs_run"] == 1


@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_gives_the_logits_of_eager(name):
    check_family(name, num_hidden_layers=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_every_family_gives_the_logits_of_eager(name):
    check_family(name)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["grouped_mm", "batched_mm"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_experts_of_either_implementation_give_the_logits_of_eager(implementation, dtype):
    model = ZOO["mixtral"].model().to(dtype)
    model.set_experts_implementation(implementation)
    (ids,) = ZOO["mixtral"].inputs()
    expected = model(ids).logits.float()
    for tokens in (1, 7):  # fewer rows than experts, and more
        actual = compiled(model)(ids[:1, :tokens]).logits.float()
        tolerance = 1e-5 if dtype is torch.float32 else 2e-2
        torch.testing.assert_close(actual, expected[:1, :tokens], rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "mixtral, window in context", "gemma3", "falcon h1"])
@torch.no_grad()
def test_texts_that_are_padded_on_the_left_have_the_logits_of_eager(family):
    model = decoder(family, num_hidden_layers=2)
    positions = (MASK.cumsum(-1) - 1).clamp(min=0)
    call = {"input_ids": LEFT_PADDED, "attention_mask": MASK, "position_ids": positions, "use_cache": False}
    torch.testing.assert_close(compiled(model)(**call).logits, model(**call).logits, rtol=1e-4, atol=1e-4)


def test_generate_of_a_compiled_model_writes_eagers_texts_by_one_program_for_prompts_and_one_for_steps():
    call = {"attention_mask": MASK, "max_new_tokens": 6, "do_sample": False, "cache_implementation": "static"}
    model = decoder("llama", num_hidden_layers=1)
    expected = model.generate(LEFT_PADDED, **call)
    model.compile(backend="deepinfer_neuron", fullgraph=True)
    assert torch.equal(model.generate(LEFT_PADDED, **call), expected)
    assert counters["deepinfer_neuron"] == {"programs_compiled": 2, "programs_run": 6}


def generated_with(config: CompileConfig) -> Tensor:
    model = decoder("llama", num_hidden_layers=1)
    call = {"attention_mask": MASK, "max_new_tokens": 4, "do_sample": False, "cache_implementation": "static"}
    return model.generate(LEFT_PADDED, compile_config=config, **call)


def test_generate_heeds_no_compile_config_on_the_cpu():
    generated_with(CompileConfig(backend="deepinfer_neuron"))
    assert not counters["deepinfer_neuron"]


@pytest.mark.slow
def test_generate_compiles_its_steps_where_it_heeds_a_compile_config():
    eager, heeded = CompileConfig(), CompileConfig(backend="deepinfer_neuron", fullgraph=True)
    heeded._compile_all_devices = True  # private; stands for a device that transformers compiles for
    assert torch.equal(generated_with(heeded), generated_with(eager))
    assert counters["deepinfer_neuron"] == {"programs_compiled": 1, "programs_run": 3}
