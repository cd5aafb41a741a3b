"""The DeepSeek-V4.1 text backbone in plain PyTorch: one request, a prompt at once, then token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..checkpoint.loader import Checkpoint
from ..engram_hash import hash_sequence
from ..numerics import Numerics
from .attention import attention
from .engram import add_engram
from .hyper_connection import collapse, first_streams
from .layer import run_sublayers
from .state import Forward, RequestState
from .weights import Block, Observer, Weights


@dataclass(frozen=True)
class StepOutput:
    """``logits`` float32 [n, V] of the positions asked for, natural-log units; ``main_hidden`` [S, taps * d]: what the
    draft stages condition on, the stream means at the inputs of the target layers."""

    logits: Tensor
    main_hidden: Tensor


class ReferenceModel:
    """Meaning, not speed: each value is computed as the DeepSeek-V4.1 inference code computes it.

    Weights are decoded at first use and kept. In float32 nothing is rounded to bfloat16 and the quantisers see
    float32. ``observe`` receives every named intermediate value, per layer under ``layers.{L}.``, plus ``embed``,
    ``final.collapse``, ``final.norm`` and ``logits``.
    """

    def __init__(
        self, checkpoint: Checkpoint, numerics: Numerics | None = None, observe: Observer | None = None
    ) -> None:
        self.config = checkpoint.config
        self.weights = Weights(checkpoint, numerics or Numerics())
        self.observe = observe
        self.state = RequestState()
        self._tables = checkpoint.engram_tables()

    def prefill(self, token_ids: Sequence[int], positions: Sequence[int] | None = None) -> StepOutput:
        """Start a new request with its whole prompt.

        ``positions`` are those whose logits are returned, by default only the last. Raises InputError for an empty
        prompt, an unknown token or position, or a prompt beyond ``max_position_embeddings``.
        """
        if len(token_ids) == 0:
            raise InputError("the prompt is empty; pass at least one token id")
        self.state = RequestState()
        return self._forward(list(token_ids), [len(token_ids) - 1] if positions is None else list(positions))

    def decode(self, token_id: int) -> StepOutput:
        """Append one token to the request; raises InputError before a prefill, and as :meth:`prefill` does."""
        if not self.state.token_ids:
            raise InputError("decode needs a request; call prefill with its prompt first")
        return self._forward([token_id], [0])

    def engram_row_ids(self, token_ids: Sequence[int]) -> Tensor:
        """Table rows int64 [S, engram layers, columns] of a sequence from its first token on."""
        return hash_sequence(self._tables, torch.tensor(token_ids))

    @torch.inference_mode()
    def run_layer(self, layer: int, streams: Tensor, pre: Tensor, forward: Forward) -> tuple[Tensor, Tensor]:
        """Backbone layer on streams [S, n, d] and pre [S, n], after its engram (see :meth:`add_engram`)."""

        def attend(x: Tensor) -> Tensor:
            return attention(block, layer, x, forward)

        block = self._block(f"layers.{layer}.")
        return run_sublayers(block, streams, pre, attend, self.config.num_experts_per_tok)

    @torch.inference_mode()
    def add_engram(self, layer: int, streams: Tensor, row_ids: Tensor) -> Tensor:
        """Streams [S, n, d] plus the engram of ``layer`` if it has one; ``row_ids`` [S, engram layers, columns]."""
        if layer not in self.config.engram_layer_ids:
            return streams
        ids = row_ids[:, self.config.engram_layer_ids.index(layer)]
        return add_engram(self._block(f"layers.{layer}."), streams, self.weights.engram_rows(layer, ids))

    @torch.inference_mode()
    def _forward(self, token_ids: list[int], logit_rows: list[int]) -> StepOutput:
        start = len(self.state.token_ids)
        self._check(token_ids, start, logit_rows)
        self.state.token_ids.extend(token_ids)
        forward = Forward(self.state, start, len(token_ids))
        row_ids = self._new_row_ids(len(token_ids))
        top = self._block("")
        embedded = top.report("embed", self.weights.embedding("embed.weight", torch.tensor(token_ids)))
        streams, pre = first_streams(embedded, self.config.hc_mult)
        taps = []
        for layer in range(self.config.num_hidden_layers):
            streams = self.add_engram(layer, streams, row_ids)
            if layer in self.config.dspark_target_layer_ids:
                taps.append(streams.float().mean(1).to(streams.dtype))
            streams, pre = self.run_layer(layer, streams, pre, forward)
        main_hidden = torch.cat(taps, dim=1) if taps else streams.new_empty(len(token_ids), 0)
        return StepOutput(self.head(streams[logit_rows], pre[logit_rows]), main_hidden)

    @torch.inference_mode()
    def head(self, streams: Tensor, pre: Tensor) -> Tensor:
        """Final streams [n, streams, d] and their pre [n, streams] -> logits float32 [n, V]."""
        top = self._block("")
        collapsed = top.report("final.collapse", collapse(streams, pre))
        normed = top.report("final.norm", top.norm("norm", collapsed))
        return top.report("logits", F.linear(normed.float(), top.tensor("head.weight")))

    def _new_row_ids(self, length: int) -> Tensor:
        """Engram rows of the newest ``length`` tokens; an n-gram needs only a few tokens before its own."""
        reach = length + self.config.engram_max_ngram_size - 1
        return self.engram_row_ids(self.state.token_ids[-reach:])[-length:]

    def _block(self, prefix: str) -> Block:
        return Block(self.weights, prefix, self.observe)

    def _check(self, token_ids: list[int], start: int, logit_rows: list[int]) -> None:
        vocabulary, longest = self.config.vocab_size, self.config.max_position_embeddings
        if start == 0 and self.config.image_token_id in token_ids:
            image = self.config.image_token_id
            raise InputError(f"token id {image} stands for an image: the reference reads text only, leave it out")
        unknown = [token for token in token_ids if not 0 <= token < vocabulary]
        if unknown:
            raise InputError(f"token id {unknown[0]} is not in the vocabulary; pass ids 0..{vocabulary - 1}")
        if start + len(token_ids) > longest:
            raise InputError(
                f"{start + len(token_ids)} tokens exceed max_position_embeddings {longest}; shorten the request"
            )
        outside = [row for row in logit_rows if not 0 <= row < len(token_ids)]
        if outside:
            raise InputError(f"logits asked for at position {outside[0]} of a prompt of {len(token_ids)} tokens")
