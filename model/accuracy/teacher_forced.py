"""Golden tokens fed step by step through a step function, so that every step sees the same tokens as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..request_table import Request, StepFunction
from ..requests import RequestPool
from .golden import GoldenPrompt


@dataclass(frozen=True)
class ForcedRequest:
    """A prefilled request, the golden prompt it follows and the logits [vocab] after the prompt."""

    request: Request
    golden: GoldenPrompt
    first_logits: Tensor


def add_prompts(pool: RequestPool, prompts: Sequence[GoldenPrompt]) -> list[ForcedRequest]:
    """Prefill each golden prompt as a request of its own."""
    return [
        ForcedRequest(request, golden, logits)
        for golden in prompts
        for request, logits in [pool.add(golden.tokens[: golden.length])]
    ]


def rewind(pool: RequestPool, forced: Sequence[ForcedRequest], caches: Mapping[str, Tensor]) -> None:
    """Take requests back to where they were after prefill; ``caches`` is the snapshot made then."""
    pool.model.cache.restore(caches)
    for entry in forced:
        del entry.request.tokens[entry.golden.length :]


def golden_inputs(pool: RequestPool, batch: Sequence[ForcedRequest]) -> dict[str, Tensor]:
    """The decode slots of the step after each request's prompt, fed the golden token."""
    tokens = [entry.golden.tokens[entry.golden.length] for entry in batch]
    return pool.step_inputs([entry.request for entry in batch], tokens)


def run_forced(pool: RequestPool, batch: Sequence[ForcedRequest], run: StepFunction | None = None) -> Tensor:
    """Decode the golden tokens of a batch: logits [steps, B, vocab] after each of them."""
    steps = min(len(entry.golden.tokens) - entry.golden.length for entry in batch)
    requests = [entry.request for entry in batch]
    return torch.stack(
        [
            pool.step(requests, [entry.golden.tokens[entry.golden.length + step] for entry in batch], run).clone()
            for step in range(steps)
        ]
    )


@dataclass(frozen=True)
class StepMismatch:
    """How far one compiled step is from the eager step that was fed the same inputs and the same caches.

    ``cache_elements`` of ``cache_total`` written elements differ in any bit; ``logits_rel`` is the relative RMS
    distance of the logits.
    """

    cache_elements: int
    cache_total: int
    logits_rel: float


def compare_steps(pool: RequestPool, batch: Sequence[ForcedRequest], run: StepFunction) -> list[StepMismatch]:
    """Each step of ``run`` on the caches that eager steps left, against the eager step."""
    steps = min(len(entry.golden.tokens) - entry.golden.length for entry in batch)
    mismatches = []
    cache = pool.model.cache
    for step in range(steps):
        tokens = [entry.golden.tokens[entry.golden.length + step] for entry in batch]
        inputs = pool.step_inputs([entry.request for entry in batch], tokens)
        before = cache.snapshot()
        actual = run(**inputs).clone()
        written = cache.snapshot()
        cache.restore(before)
        expected = pool.step([entry.request for entry in batch], tokens)
        mismatches.append(_mismatch(actual, expected, before, written, cache.snapshot()))
    return mismatches


def _mismatch(
    actual: Tensor,
    expected: Tensor,
    before: Mapping[str, Tensor],
    written: Mapping[str, Tensor],
    expected_roots: Mapping[str, Tensor],
) -> StepMismatch:
    differing = total = 0
    for name, root in expected_roots.items():
        touched = (root != before[name]).any(-1) | (written[name] != before[name]).any(-1)
        differing += int((written[name][touched] != root[touched]).sum())
        total += int(touched.sum()) * root.shape[1]
    distance = (actual.double() - expected.double()).norm() / expected.double().norm()
    return StepMismatch(differing, total, distance.item())
