from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.runner import DecodeRunner
from deepinfer_neuron.runtime.slots import ZERO, PaddingPolicy, SlotSpec
from deepinfer_neuron.runtime.weights import BoundTensors
from torch import nn

ROWS = 32
SCRATCH = ROWS


class TinyDecoder(nn.Module):
    """A decode step with one bfloat16 and one float32 cache; the row after the last is scratch for padding."""

    decode_slots = (
        SlotSpec("tokens", torch.int64, (), ZERO, index=True),
        SlotSpec("row", torch.int32, (), PaddingPolicy.fill(SCRATCH), index=True),
        SlotSpec("history", torch.int32, (4,), PaddingPolicy.fill(SCRATCH), index=True),
        SlotSpec("scale", torch.float32, (1,)),
    )

    def __init__(self, width: int = 16, vocabulary: int = 20):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.embed = nn.Parameter(torch.randn(vocabulary, width, generator=generator).bfloat16(), requires_grad=False)
        self.head = nn.Parameter(torch.randn(vocabulary, width, generator=generator), requires_grad=False)
        self.register_buffer("keys", torch.randn(ROWS + 1, width, generator=generator).bfloat16())
        self.register_buffer("sums", torch.randn(ROWS + 1, width, generator=generator))

    def forward(self, tokens, row, history, scale):
        hidden = self.embed[tokens]
        hidden, history = stage_boundary("embed", hidden, history)
        self.keys.index_put_((row,), hidden)
        self.sums.index_put_((row,), hidden.float() * scale)
        seen = self.keys[history].float() + self.sums[history]
        (seen,) = stage_boundary("caches", seen)
        mixed = ((seen[:, 0] + seen[:, 1]) + seen[:, 2]) + seen[:, 3]
        return {"logits": nn.functional.linear(mixed, self.head), "mixed": mixed}


def step_inputs(live: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Inputs of ``live`` requests, each with a cache row of its own."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(ROWS, generator=generator)[:live].to(torch.int32)
    history = torch.randint(0, ROWS, (live, 4), generator=generator, dtype=torch.int32)
    history[:, 0] = rows
    return {
        "tokens": torch.randint(0, 20, (live,), generator=generator),
        "row": rows,
        "history": history,
        "scale": torch.rand(live, 1, generator=generator),
    }


def make_runner(
    plan: DecodePlan,
    artifacts: Mapping[str, Artifact],
    tensors: nn.Module | Mapping[str, torch.Tensor],
    fallback: Callable[..., Any] | None,
) -> DecodeRunner:
    """A runner on a device of its own."""
    device = PjrtDevice()
    executables = {digest: device.load(artifact) for digest, artifact in artifacts.items()}
    return DecodeRunner(plan, executables, BoundTensors(tensors, plan.tensor_names), device, fallback)


class Pair:
    """A runner over a model of its own, and an equal model that runs in eager PyTorch."""

    def __init__(self, plan: DecodePlan, artifacts: Mapping[str, Artifact]):
        self.model, self.eager = TinyDecoder(), TinyDecoder()
        self.runner = make_runner(plan, artifacts, self.model, self.model)

    def assert_step_equal(self, inputs: dict[str, torch.Tensor]) -> None:
        actual, expected = self.runner(**inputs), self.eager(**inputs)
        assert actual.keys() == expected.keys()
        assert torch.equal(actual["mixed"], expected["mixed"])
        torch.testing.assert_close(actual["logits"], expected["logits"])
        self.assert_caches_equal()

    def assert_caches_equal(self) -> None:
        for name in ("keys", "sums"):
            assert torch.equal(getattr(self.model, name)[:SCRATCH], getattr(self.eager, name)[:SCRATCH])


@pytest.fixture(scope="session", params=["whole", "regions"])
def programs(request: pytest.FixtureRequest) -> tuple[DecodePlan, Mapping[str, Artifact]]:
    """Plan and programs of the tiny decoder for 1, 2, 4 and 6 rows; the plan has been through JSON."""
    runner = compile_decode(TinyDecoder(), (1, 2, 4, 6), mode=request.param)
    plan = DecodePlan.from_json(json.loads(json.dumps(runner.plan.to_json())))
    return plan, {name: executable.artifact for name, executable in runner.executables.items()}


@pytest.fixture
def pair(programs) -> Pair:
    return Pair(*programs)


@pytest.fixture
def runner_of() -> Callable[..., DecodeRunner]:
    return make_runner


@pytest.fixture
def decoder() -> type[TinyDecoder]:
    return TinyDecoder


@pytest.fixture
def inputs_for() -> Callable[..., dict[str, torch.Tensor]]:
    return step_inputs
