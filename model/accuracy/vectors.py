"""The reference's values of given prompts under the names of the published test vectors.

Per prompt: ``<mode>/<prompt>/`` logits, h, pre, sel.<layer>, cand.<layer>, experts and dspark<P>.*, and
``common/<prompt>/engram_rows``. A leading axis of batch rows exists only for prompts with several rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...reporting import Count
from ..checkpoint.loader import Checkpoint
from ..numerics import Numerics
from ..reference.dspark import DraftModel
from ..reference.model import ReferenceModel
from .golden import mode_name
from .tensor_file import write_tensors
from .trace import Trace


@dataclass(frozen=True)
class DraftRequest:
    """Draft after position ``position`` with ``token`` at the next one; ``forced`` are the Markov term's tokens."""

    position: int
    token: int
    forced: list[int]


@dataclass(frozen=True)
class PromptRequest:
    """Token ids [rows][S] of one prompt, positions whose residual streams are kept, and drafts to make."""

    rows: list[list[int]]
    hidden_positions: list[int]
    drafts: list[DraftRequest]


def read_requests(path: str | Path) -> dict[str, PromptRequest]:
    """Read an ``inputs.json``: ``prompts[name]`` with ``ids``, ``h_pos`` and ``drafts`` of P, token and forced.

    Raises InputError naming the file and what is wrong with it.
    """
    path = Path(path)
    try:
        prompts = json.loads(path.read_text())["prompts"]
        return {name: _request(entry) for name, entry in prompts.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not a list of prompts ({type(error).__name__}: {error}); expected "
            '{"prompts": {NAME: {"ids": [[...]], "h_pos": [...], "drafts": [{"P", "token", "forced"}]}}}'
        ) from None


def write_vectors(
    checkpoint: Checkpoint,
    requests: dict[str, PromptRequest],
    path: str | Path,
    numerics: Numerics,
    progress: Count = lambda done, total: None,
) -> dict[str, Tensor]:
    """Compute and write all values of ``requests``, whole or not at all; returns them by name.

    ``progress(done, total)`` counts prompts.
    """
    trace = Trace()
    model = ReferenceModel(checkpoint, numerics, trace)
    mode = mode_name(numerics)
    tensors: dict[str, Tensor] = {}
    for done, (name, request) in enumerate(requests.items()):
        progress(done, len(requests))
        rows = [_row_values(model, trace, ids, request) for ids in request.rows]
        for key, value in _stacked(rows).items():
            group = "common" if key == "engram_rows" else mode
            tensors[f"{group}/{name}/{key}"] = value
    write_tensors(path, tensors, {"mode": mode, "torch": torch.__version__})
    return tensors


def _request(entry: dict[str, Any]) -> PromptRequest:
    rows = entry["ids"]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("ids needs one or more rows of one length")
    length = len(rows[0])
    hidden_positions = entry.get("h_pos", list(range(length)))
    drafts = [DraftRequest(draft["P"], draft["token"], draft["forced"]) for draft in entry.get("drafts", [])]
    outside = [at for at in (*hidden_positions, *(draft.position for draft in drafts)) if not 0 <= at < length]
    if outside:
        raise ValueError(f"position {outside[0]} of a prompt of {length} tokens")
    return PromptRequest(rows, hidden_positions, drafts)


def _row_values(model: ReferenceModel, trace: Trace, ids: list[int], request: PromptRequest) -> dict[str, Tensor]:
    config = model.config
    output = model.prefill(ids, range(len(ids)))
    layers, kept = config.num_hidden_layers, request.hidden_positions
    values = {
        "engram_rows": model.engram_row_ids(ids),
        "logits": output.logits,
        "h": trace.layers(layers, "ffn.expand")[:, kept].float(),
        "pre": trace.layers(layers, "ffn.mix.pre")[:, kept],
        "experts": trace.layers(layers, "ffn.expert_ids").to(torch.int16),
    }
    for layer in config.index_source_layer_ids:
        values[f"sel.{layer}"] = trace.layer(layer, "attn.selection").to(torch.int16)
    source = config.candidate_source_layer_id
    values[f"cand.{source}"] = trace.layer(source, "attn.candidates").to(torch.uint8)
    for request_ in request.drafts:
        drafted = _draft_values(model, output.main_hidden, request_)
        values |= {f"dspark{request_.position}.{key}": value for key, value in drafted.items()}
    return values


def _draft_values(model: ReferenceModel, main_hidden: Tensor, request: DraftRequest) -> dict[str, Tensor]:
    seen = main_hidden[: request.position + 1]
    stages = DraftModel(model.weights)
    stages.write(seen, 0)
    forced, greedy = stages.draft(request.token, request.forced), stages.draft(request.token)
    return {
        "main_hidden": seen[-model.config.sliding_window :].float(),
        "forced_logits": forced.logits,
        "greedy_tokens": torch.tensor(greedy.tokens, dtype=torch.int32),
        "greedy_logits": greedy.logits,
        "x": forced.hidden.float(),
        "forced_conf": forced.confidence,
        "forced_conf_normed_input": forced.confidence_of_norm,
    }


def _stacked(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    if len(rows) == 1:
        return rows[0]
    return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
