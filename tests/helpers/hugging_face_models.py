"""Small ``transformers`` decoders with random weights, and greedy decoding by eager PyTorch and by a compiled step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import torch
import transformers
from deepinfer_neuron.engine.huggingface.decode import HuggingFaceDecode
from transformers import AutoModelForCausalLM, PreTrainedModel

PROMPTS = ([5, 9, 3, 17], [8], [44, 2, 7, 7, 1, 90], [3, 3, 60])
"""One more than a test keeps open at once, so that the last is given the row of another."""
SIZES = {
    "vocab_size": 199,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # wide enough that greedy texts do not repeat one token
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}


def _config(name: str, **values: object) -> Callable[[], transformers.PreTrainedConfig]:
    return lambda: getattr(transformers, name)(**{**SIZES, **values})


FAMILIES: Mapping[str, Callable[[], transformers.PreTrainedConfig]] = {
    "llama": _config("LlamaConfig"),
    "qwen3, tied": _config("Qwen3Config", head_dim=16, tie_word_embeddings=True),
    "mixtral": _config("MixtralConfig", **EXPERTS),
    "mixtral, window in context": _config("MixtralConfig", **EXPERTS, sliding_window=11),
    "mixtral, window beyond context": _config("MixtralConfig", **EXPERTS, sliding_window=400),
    "deepseek v3": _config(
        "DeepseekV3Config",
        num_key_value_heads=4,
        moe_intermediate_size=32,
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        q_lora_rank=24,
        kv_lora_rank=32,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=20,
    ),
    "gpt-oss": _config("GptOssConfig", **EXPERTS, head_dim=16, sliding_window=9),
    "gemma3": _config(
        "Gemma3TextConfig",
        num_hidden_layers=4,
        head_dim=16,
        sliding_window=10,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    ),
    "bamba": _config("BambaConfig", attn_layer_indices=[1], mamba_expand=2, **MAMBA),
    "falcon h1": _config("FalconH1Config", mamba_d_ssm=128, **MAMBA),
    "jamba": _config(
        "JambaConfig",
        attn_layer_period=3,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        num_experts=4,
        num_experts_per_tok=2,
        mamba_d_state=8,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
}


def decoder(family: str, dtype: torch.dtype = torch.float32, **changes: object) -> PreTrainedModel:
    """The model of a family with the same random weights each time; ``changes`` replace values of its config."""
    config = FAMILIES[family]()
    for name, value in changes.items():
        setattr(config, name, value)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def greedy_in_eager(model: PreTrainedModel, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """What ``generate`` appends to each prompt alone."""
    texts = [model.generate(torch.tensor([one]), max_new_tokens=count, do_sample=False)[0].tolist() for one in prompts]
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


def greedy_in_steps(decode: HuggingFaceDecode, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The same by steps: before each of them a prompt joins if there is room, and who has ``count`` tokens leaves."""
    waiting = deque(enumerate(prompts))
    live = {}
    texts: list[list[int]] = [[] for _ in prompts]
    while waiting or live:
        if waiting and len(live) < decode.table.max_requests:
            number, prompt = waiting.popleft()
            live[number] = decode.open()
            texts[number].append(int(decode.prefill(live[number], prompt).argmax()))
        logits = decode.step(list(live.values()), [texts[number][-1] for number in live])
        for number, token in zip(live, logits.argmax(-1).tolist(), strict=True):
            texts[number].append(token)
        for number in [number for number in live if len(texts[number]) == count]:
            decode.close(live.pop(number))
    return texts
