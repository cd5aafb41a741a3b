"""The DSpark draft: a few stages that propose a block of tokens from the backbone's hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from .attention import attend, layer_frequencies, project_output, project_query, project_window_kv
from .hyper_connection import collapse, first_streams
from .layer import run_sublayers
from .weights import Block, Observer, Weights


@dataclass(frozen=True)
class Draft:
    """One drafted block of n tokens.

    ``tokens`` n + 1 ids, the given one first; ``logits`` float32 [n, V] with the Markov term; ``hidden`` [n, d], the
    collapsed streams before the last norm; ``confidence`` float32 [n], raw logits from ``hidden`` as the inference
    code has it; ``confidence_of_norm`` [n], the same head on the normed hidden states as drafts are trained with.
    """

    tokens: list[int]
    logits: Tensor
    hidden: Tensor
    confidence: Tensor
    confidence_of_norm: Tensor


class DraftModel:
    """The draft stages of one request; names of reported values start with ``mtp.{stage}.``."""

    def __init__(self, weights: Weights, observe: Observer | None = None) -> None:
        self.config = weights.config
        self.weights = weights
        self._blocks = [
            Block(weights, f"mtp.{stage}.", observe) for stage in range(self.config.num_nextn_predict_layers)
        ]
        window = self.config.sliding_window
        empty = torch.zeros(window, self.config.head_dim, dtype=weights.numerics.dtype)
        self._rings = [empty.clone() for _ in self._blocks]
        self._written = 0

    @torch.inference_mode()
    def write(self, main_hidden: Tensor, first_position: int) -> None:
        """Give the stages the backbone's hidden states [n, taps * d] of positions ``first_position`` onwards."""
        window = self.config.sliding_window
        skipped = max(len(main_hidden) - window, 0)
        positions = first_position + torch.arange(skipped, len(main_hidden))
        first = self._blocks[0]
        main = first.norm("main_norm", first.quantised_linear("main_proj", main_hidden[skipped:]))
        for stage, block in enumerate(self._blocks):
            self._rings[stage][positions % window] = project_window_kv(block, main, positions, self._frequencies(stage))
        self._written = first_position + len(main_hidden)

    @torch.inference_mode()
    def draft(self, token_id: int, forced: Sequence[int] | None = None) -> Draft:
        """Propose the block that follows ``token_id``, the token after the last position written.

        ``forced`` gives the earlier tokens of the block that the Markov term sees (block size - 1 ids); by default
        each is the greedy choice. Raises InputError before any :meth:`write`, for an unknown
        token or a wrong number of forced ids.
        """
        config = self.config
        size = config.dspark_block_size
        if not 0 <= token_id < config.vocab_size:
            raise InputError(f"token id {token_id} is not in the vocabulary; pass ids 0..{config.vocab_size - 1}")
        if self._written == 0:
            raise InputError("a draft needs the backbone's hidden states; call write first")
        if forced is not None and len(forced) != size - 1:
            raise InputError(f"{len(forced)} forced tokens for a block of {size}; pass {size - 1}")
        ids = torch.tensor([token_id] + [config.dspark_noise_token_id] * (size - 1))
        streams, pre = first_streams(self.weights.embedding("embed.weight", ids), config.hc_mult)
        for stage, block in enumerate(self._blocks):
            attention = self._stage_attention(stage)
            streams, pre = run_sublayers(block, streams, pre, attention, config.dspark_num_experts_per_tok)
        return self._propose(collapse(streams, pre), token_id, forced)

    def _stage_attention(self, stage: int) -> Callable[[Tensor], Tensor]:
        """Every query sees the filled slots of the ring and the whole block, itself and later tokens included."""
        block, ring, frequencies = self._blocks[stage], self._rings[stage], self._frequencies(stage)

        def compute(x: Tensor) -> Tensor:
            positions = self._written + torch.arange(len(x))
            _, query = project_query(block, x, positions, frequencies)
            kv = project_window_kv(block, x, positions, frequencies)
            keys = torch.cat([ring[: self._written], kv])
            rows = torch.arange(len(keys)).expand(len(x), -1)
            return project_output(block, attend(block, query, keys, rows), positions, frequencies)

        return compute

    def _propose(self, hidden: Tensor, token_id: int, forced: Sequence[int] | None) -> Draft:
        last = self._blocks[-1]
        normed = last.norm("norm", hidden)
        base = F.linear(normed.float(), self.weights.tensor("head.weight"))
        tokens, logits, embeddings = [token_id], [], []
        for step in range(len(hidden)):
            previous = tokens[-1] if forced is None or step == 0 else forced[step - 1]
            embedding = self.weights.embedding(f"{last.prefix}markov_head.embed.weight", torch.tensor([previous]))
            logits.append(base[step] + last.float_linear("markov_head.head", embedding)[0])
            embeddings.append(embedding)
            tokens.append(int(logits[-1].argmax()))
        markov = torch.cat(embeddings)
        return Draft(
            tokens, torch.stack(logits), hidden, self._confidence(hidden, markov), self._confidence(normed, markov)
        )

    def _confidence(self, hidden: Tensor, markov: Tensor) -> Tensor:
        features = torch.cat([hidden, markov], dim=-1)
        return self._blocks[-1].float_linear("confidence_head.proj", features)[:, 0]

    def _frequencies(self, stage: int) -> Tensor:
        return layer_frequencies(self._blocks[stage], self.config.num_hidden_layers + stage)
