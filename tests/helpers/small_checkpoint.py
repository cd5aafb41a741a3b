"""The checkpoint of a model that is quick to compile: nano's with two layers and two Sinkhorn iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepinfer_neuron.model.checkpoint.sizes import config_json
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint_of

# A source of keys, values and candidates; then Engram, and a layer that reads what the first one wrote.
_LAYERS: dict[str, Any] = {
    "num_hidden_layers": 2,
    "compress_ratios": [1, 1, 0, 0, 0],
    "kv_source_layer_ids": [0],
    "index_source_layer_ids": [0],
    "candidate_source_layer_id": 0,
    "engram_layer_ids": [1],
    "engram_num_embeddings": [1362],
    "dspark_target_layer_ids": [0, 1],
    "hc_sinkhorn_iters": 2,
}


def small_config() -> dict[str, Any]:
    """Its ``config.json``."""
    raw = config_json("nano")
    return raw | {"text_config": raw["text_config"] | _LAYERS}


def make_small_checkpoint(directory: Path) -> Path:
    """Write it to a new directory, which is returned."""
    return make_checkpoint_of(directory, small_config())
