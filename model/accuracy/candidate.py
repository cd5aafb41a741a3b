"""Candidate files: what an engine says about the prompts of a golden file, under the golden names.

Tensors of a prompt p are those of a golden file: ``p/tokens``, ``p/logits`` and, if they were kept, ``p/hidden``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..requests import Request, RequestPool, StepFunction
from .compare import LEFT_OUT, ValueSet
from .golden import GoldenPrompt
from .trace import Trace

KIND = "deepinfer_neuron.candidate.1"


@dataclass(frozen=True)
class CandidatePrompt:
    """The golden tokens [S + steps], and what was seen along them; shapes are those of ``GoldenPrompt``."""

    tokens: list[int]
    logits: Tensor
    hidden: Tensor | None


def follow_prompts(
    pool: RequestPool,
    prompts: Mapping[str, GoldenPrompt],
    batch_size: int,
    run: StepFunction | None = None,
    keep_hidden: bool = False,
    progress: Callable[[Sequence[str]], None] = lambda names: None,
) -> dict[str, CandidatePrompt]:
    """Prefill and decode golden prompts, ``batch_size`` at a time, feeding the golden tokens whatever is predicted.

    Args:
        pool: has room for ``batch_size`` requests of the longest prompt.
        run: the step function; None is the eager model.
        keep_hidden: keep the residual streams, which only the eager model reports.
        progress: called with the names of each batch before it is prefilled.
    """
    assert run is None or not keep_hidden
    names = list(prompts)
    followed: dict[str, CandidatePrompt] = {}
    for start in range(0, len(names), batch_size):
        batch = names[start : start + batch_size]
        progress(batch)
        followed |= _follow_batch(pool, {name: prompts[name] for name in batch}, run, keep_hidden)
    return followed


def candidate_values(prompts: Mapping[str, CandidatePrompt], mode: str) -> ValueSet:
    """The content of a candidate file; ``mode`` says what made it. Without residual streams it says so."""
    tensors = {}
    for name, prompt in prompts.items():
        tensors[f"{name}/tokens"] = torch.tensor(prompt.tokens)
        tensors[f"{name}/logits"] = prompt.logits
        if prompt.hidden is not None:
            tensors[f"{name}/hidden"] = prompt.hidden
    left_out = [] if all(prompt.hidden is not None for prompt in prompts.values()) else ["hidden"]
    metadata = {"kind": KIND, "mode": mode, "torch": torch.__version__, LEFT_OUT: json.dumps(left_out)}
    return ValueSet(f"this run in mode {mode}", tensors, metadata)


class _Followed:
    """One request on its way along a golden prompt, and what was seen after the prompt and after each token."""

    def __init__(self, golden: GoldenPrompt, request: Request):
        self.golden = golden
        self.request = request
        self.logits: list[Tensor] = []
        self.hidden: list[Tensor] = []

    @property
    def next_token(self) -> int | None:
        """The golden token to feed, None at the end."""
        fed = len(self.request.tokens)
        return self.golden.tokens[fed] if fed < len(self.golden.tokens) else None

    def result(self) -> CandidatePrompt:
        hidden = torch.stack(self.hidden) if self.hidden else None
        return CandidatePrompt(list(self.request.tokens), torch.stack(self.logits), hidden)


def _follow_batch(
    pool: RequestPool, prompts: Mapping[str, GoldenPrompt], run: StepFunction | None, keep_hidden: bool
) -> dict[str, CandidatePrompt]:
    layers = pool.model.config.num_hidden_layers
    trace = Trace() if keep_hidden else None
    rows: dict[str, _Followed] = {}
    for name, golden in prompts.items():
        request, logits = pool.add(golden.tokens[: golden.length], trace)
        rows[name] = row = _Followed(golden, request)
        row.logits.append(logits)
        if trace is not None:
            row.hidden.append(trace.layers(layers, "ffn.expand")[:, -1])
    step = run or (lambda **inputs: pool.model(**inputs, observe=trace))
    while live := [(row, token) for row in rows.values() if (token := row.next_token) is not None]:
        logits = pool.step([row.request for row, _ in live], [token for _, token in live], step).clone()
        for index, (row, _) in enumerate(live):
            row.logits.append(logits[index])
            if trace is not None:
                row.hidden.append(trace.layers(layers, "ffn.expand")[:, index])
    for row in rows.values():
        pool.remove(row.request)
    return {name: row.result() for name, row in rows.items()}
