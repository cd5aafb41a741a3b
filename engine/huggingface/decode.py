"""The compiled decode step of a ``transformers`` decoder, and the requests that it serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ...errors import InputError
from ...runtime.runner import DecodeRunner
from .capturable import capturable_copy
from .probe import layer_forms
from .refusals import check_decoder, check_sizes
from .request_rows import Request, RequestRows
from .step import HuggingFaceStep


@dataclass(frozen=True)
class HuggingFaceDecode:
    """A decode step that is ready.

    Attributes:
        runner: the step itself; it takes the slots of ``HuggingFaceStep``.
        table: who owns which row of the caches.
    """

    runner: DecodeRunner
    table: RequestRows

    def open(self) -> Request:
        """A request without tokens; raises InputError when as many are open as the caches hold."""
        return self.table.open()

    def step(self, requests: Sequence[Request], token_ids: Sequence[int]) -> Tensor:
        """Append one token to each request; logits float32 [requests, vocabulary] after it, until the next step.

        Raises InputError for an id outside the vocabulary, a request that is full, closed or named twice, or more
        requests than the largest batch size.
        """
        inputs = self.table.step_inputs(requests, token_ids)
        largest = self.runner.maximum
        if largest and len(requests) > largest:
            raise InputError(
                f"a step of {len(requests)} requests: the largest compiled size is {largest}; compile a larger batch "
                "size, or split the batch"
            )
        with torch.no_grad():
            logits = self.runner(**inputs)
        for request, token in zip(requests, token_ids, strict=True):
            request.tokens.append(int(token))
        return logits

    def prefill(self, request: Request, token_ids: Sequence[int]) -> Tensor:
        """Append a prompt to a request, one token a step; logits float32 [1, vocabulary] after it, until the next step.

        Raises InputError as ``step`` does, and for an empty prompt; nothing was appended then.
        """
        if not len(token_ids):
            raise InputError("the prompt is empty: give at least one token id (for example the bos token)")
        self.table.check([request], token_ids)
        self.table.check_room(request, len(token_ids))
        *first, last = token_ids
        for token in first:
            self.step([request], [token])
        return self.step([request], [last])

    def close(self, request: Request) -> None:
        """Give a request's row of the caches to others; raises InputError if it is closed already."""
        self.table.remove(request)


def compile_hugging_face(
    model: PreTrainedModel,
    batch_sizes: Sequence[int],
    max_context: int,
    max_requests: int | None,
    compile_step: Callable[[HuggingFaceStep, Sequence[int]], DecodeRunner],
) -> HuggingFaceDecode:
    """The step of ``model``, compiled by ``compile_step`` for ``batch_sizes``, the largest last.

    Raises:
        CaptureError: ``model`` is no decoder of text, or keeps what has no pools.
        ConfigError: sizes below 1, or more context than the model has positions for.
    """
    requests = batch_sizes[-1] if max_requests is None else max_requests
    check_decoder(model)
    check_sizes(model, max_context, requests)
    copied = capturable_copy(model)
    step = HuggingFaceStep(copied, layer_forms(copied), max_context, requests)
    table = RequestRows(step.vocabulary, max_context, requests)
    return HuggingFaceDecode(compile_step(step, batch_sizes), table)
