"""The runner on a device with memory of its own, which the stand-in for libnrt has."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.errors import DeviceError, InputError
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice
from deepinfer_neuron.runtime.devices.nrt.runtime import open_runtime
from deepinfer_neuron.runtime.shared_caches import on_shared_caches
from nrt_standin import CompiledStep, Standin
from torch import nn

CACHES = ("keys", "sums")
WEIGHTS = ("embed", "head")
NUMERICAL_ERROR, TIMEOUT = 1003, 5


@pytest.fixture(params=["whole", "regions"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bounded(decoder) -> Callable[[], nn.Module]:
    """A decoder whose slots say how large their values are, so that int64 ones can be narrowed."""

    def make() -> nn.Module:
        model = decoder()
        maxima = {"tokens": 19, "row": 32, "history": 32}
        model.decode_slots = tuple(replace(slot, maximum=maxima.get(slot.name)) for slot in model.decode_slots)
        return model

    return make


@pytest.fixture(scope="session")
def compiled() -> dict[str, CompiledStep]:
    """Steps by their mode, compiled when they are first needed."""
    return {}


@pytest.fixture
def step(bounded, mode, on_neuron, compiled) -> CompiledStep:
    if mode not in compiled:
        compiled[mode] = CompiledStep.of(compile_decode(bounded(), (1, 2, 4), mode=mode))
    return compiled[mode]


class CorePair:
    """Equal models, one behind a runner on the core and one behind a runner on the host."""

    def __init__(self, step: CompiledStep, bounded: Callable[[], nn.Module], standin: Standin):
        self.device = NrtDevice(open_runtime(standin.path))
        self.on_core, self.on_host = bounded(), bounded()
        self.core = step.on_core(self.device, self.on_core, self.on_core)
        self.host = step.on_host(standin, self.on_host, self.on_host)

    def assert_step_equal(self, inputs: dict[str, torch.Tensor]) -> None:
        core, host = self.core(**inputs), self.host(**inputs)
        assert core.keys() == host.keys()
        for name, expected in host.items():
            assert torch.equal(core[name], expected)

    def assert_caches_equal(self) -> None:
        self.core.read_caches()
        self.host.read_caches()
        for name in CACHES:
            assert torch.equal(getattr(self.on_core, name), getattr(self.on_host, name))


@pytest.fixture
def pair_on_core(step, bounded, standin) -> CorePair:
    return CorePair(step, bounded, standin)


def test_every_live_batch_gives_the_bits_of_the_host(pair_on_core, inputs_for):
    before = {name: getattr(pair_on_core.on_core, name).clone() for name in CACHES}
    for seed, live in enumerate((4, 1, 3, 2, 4, 1)):
        pair_on_core.assert_step_equal(inputs_for(live, seed))
    for name in CACHES:
        assert torch.equal(getattr(pair_on_core.on_core, name), before[name])
    pair_on_core.assert_caches_equal()
    for name in CACHES:
        assert not torch.equal(getattr(pair_on_core.on_core, name), before[name])


def test_weights_and_caches_are_allocated_once_whatever_the_batch_sizes(pair_on_core, inputs_for, standin):
    plan = pair_on_core.core.plan
    parts = {(one.name, one.rows) for replay in plan.replays for one in replay.bindings if one.kind == "kv"}
    slices = sum(rows is not None for _, rows in parts)
    slots = len(plan.slots) * len(plan.replays)
    assert standin.alive()["tensors"] == len(WEIGHTS) + len(CACHES) + slices + slots
    for live in (1, 2, 4):
        pair_on_core.assert_step_equal(inputs_for(live))
    after_one = standin.alive()
    for live in (1, 2, 3, 4):
        pair_on_core.assert_step_equal(inputs_for(live, seed=live))
    assert standin.alive() == after_one


def test_a_runner_gives_back_what_it_allocated(step, bounded, standin, inputs_for):
    pair = CorePair(step, bounded, standin)
    pair.assert_step_equal(inputs_for(2))
    del pair
    gc.collect()
    assert standin.alive() == {"tensors": 0, "sets": 0, "models": 0}


def test_new_values_of_weights_reach_the_device(pair_on_core, inputs_for):
    pair_on_core.assert_step_equal(inputs_for(2))
    for model in (pair_on_core.on_core, pair_on_core.on_host):
        model.head.copy_(model.head * 3)
        model.embed[3:9] = 0.5
    pair_on_core.assert_step_equal(inputs_for(2, seed=1))


def test_caches_written_by_torch_are_refused_until_they_are_sent(pair_on_core, inputs_for):
    pair_on_core.assert_step_equal(inputs_for(4))
    pair_on_core.core.read_caches()
    for model in (pair_on_core.on_core, pair_on_core.on_host):
        model.keys[3:9] = 0.5
    with pytest.raises(InputError, match=r"caches \['keys'\] were changed.*write_caches\(\)"):
        pair_on_core.core(**inputs_for(2))
    pair_on_core.core.write_caches()
    pair_on_core.assert_step_equal(inputs_for(4, seed=1))
    pair_on_core.assert_caches_equal()


def test_warming_up_changes_no_live_row(pair_on_core, inputs_for):
    before = {name: getattr(pair_on_core.on_core, name).clone() for name in CACHES}
    pair_on_core.core.warm_up()
    pair_on_core.core.read_caches()
    for name in CACHES:
        assert torch.equal(getattr(pair_on_core.on_core, name)[:-1], before[name][:-1])
    pair_on_core.assert_step_equal(inputs_for(3))


def test_above_the_maximum_nothing_runs_eager_beside_the_device(pair_on_core, inputs_for):
    with pytest.raises(InputError, match="5 rows: the largest compiled size is 4 and the caches are in the device's"):
        pair_on_core.core(**inputs_for(5))
    assert pair_on_core.core.statistics.fallbacks == {}


def test_without_programs_eager_runs(step, bounded, standin, inputs_for):
    model = bounded()
    nothing = CompiledStep(replace(step.plan, replays=()), {})
    runner = nothing.on_core(NrtDevice(open_runtime(standin.path)), model, model)
    with pytest.warns(RuntimeWarning, match="nothing is compiled"):
        actual = runner(**inputs_for(2))
    assert torch.equal(actual["logits"], bounded()(**inputs_for(2))["logits"])


@pytest.mark.parametrize("failing_region", [0, -1])
def test_a_step_that_failed_can_be_repeated(pair_on_core, inputs_for, standin, failing_region):
    pair_on_core.assert_step_equal(inputs_for(2))
    last = len(pair_on_core.core.plan.replays[-1].regions) - 1
    standin.fail("nrt_execute", NUMERICAL_ERROR, after=last if failing_region else 0)
    with pytest.raises(DeviceError, match="NRT_EXEC_COMPLETED_WITH_NUM_ERR"):
        pair_on_core.core(**inputs_for(2, seed=1))
    pair_on_core.assert_step_equal(inputs_for(2, seed=1))
    pair_on_core.assert_caches_equal()


def test_after_a_timeout_the_runner_says_so_and_everything_is_freed(pair_on_core, inputs_for, standin):
    pair_on_core.assert_step_equal(inputs_for(2))
    standin.fail("nrt_execute", TIMEOUT)
    for message in ("nrt_execute failed: NRT_TIMEOUT", "unusable since NRT_TIMEOUT"):
        with pytest.raises(DeviceError, match=message):
            pair_on_core.core(**inputs_for(2, seed=1))
    with pytest.raises(DeviceError, match="unusable since NRT_TIMEOUT"):
        pair_on_core.core.read_caches()
    pair_on_core.device.runtime.close()
    assert standin.alive() == {"tensors": 0, "sets": 0, "models": 0}


@pytest.mark.parametrize("method", ["read_caches", "write_caches"])
def test_caches_are_copied_in_the_runners_own_thread(pair_on_core, method):
    errors: list[Any] = []

    def call() -> None:
        try:
            getattr(pair_on_core.core, method)()
        except DeviceError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "another thread" in str(errors[0])


def test_eager_and_compiled_steps_take_turns_on_shared_caches(pair_on_core, inputs_for):
    """Each side's writes are the other's inputs: rows overlap from step to step, in both models alike."""
    core, host = on_shared_caches(pair_on_core.core), on_shared_caches(pair_on_core.host)
    for seed in range(6):
        inputs = inputs_for(4, seed)
        steps = (core, host) if seed % 2 else (pair_on_core.on_core, pair_on_core.on_host)
        with torch.no_grad():
            on_core, on_host = (step(**inputs) for step in steps)
        for name, expected in on_host.items():
            assert torch.equal(on_core[name], expected)
        for name in CACHES:
            assert torch.equal(getattr(pair_on_core.on_core, name), getattr(pair_on_core.on_host, name))
