"""The whole decode step of a model as one module: every operation and random parts of it are modules."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deepinfer_neuron.bisection.subjects.module_rewrites import inlined
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.hlo.convert import write_module
from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.engine.decode_source import DecodeOptions, DecodeSource
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from lowered_modules import argument_types, lower_decode, text_of


@pytest.fixture(scope="module")
def step(nano_a: Path) -> LoweredModule:
    model = DecodeSource(open_checkpoint(nano_a), DecodeOptions([2], 64, target="trn2")).model
    return lower_decode(model, 2, "trn2", device_options("trn2"))


@pytest.fixture(scope="module")
def whole(step: LoweredModule) -> ModuleSubject:
    return ModuleSubject(step.bytecode)


def assert_is_a_part(whole: ModuleSubject, keep: list[int]) -> None:
    candidate, part = whole.candidate(keep), whole.part(keep)
    # Reading verifies it.
    assert len(argument_types(candidate.module)) == len(part.arguments)
    assert candidate.size == sum(not whole.items[index].is_result for index in set(keep))


def test_every_operation_alone_is_a_module(whole):
    for index, item in enumerate(whole.items):
        if not item.is_result:
            assert_is_a_part(whole, [index])


def test_random_parts_are_modules(whole):
    choice = random.Random(1)
    count = len(whole.items)
    for _ in range(50):
        assert_is_a_part(whole, [0, *choice.sample(range(count), choice.randrange(1, count))])


def files_of(subject: ModuleSubject) -> set[str]:
    return {item.line.partition(":")[0] for item in subject.items}


def test_every_operation_knows_its_line(whole):
    assert {"model/attention.py", "model/moe.py", "model/hyper_connection.py"} <= files_of(whole)
    assert "" not in files_of(whole)


def test_layers_have_equal_candidates(whole):
    calls = [index for index, item in enumerate(whole.items) if '"deepinfer.quantize_fp8"' in item.text]
    assert len({whole.candidate([index]).digest for index in calls}) < len(calls) / 2


def test_parts_of_kernels_are_modules(whole):
    inside = ModuleSubject(inlined(inlined(whole.module)))
    assert len(inside.items) > 5 * len(whole.items)
    choice = random.Random(2)
    for size in (1, 30, 3000, len(inside.items) - 2):
        assert_is_a_part(inside, [0, *choice.sample(range(len(inside.items)), size)])


@pytest.mark.slow
def test_the_step_as_a_proto_is_the_same_program(step, whole):
    again = ModuleSubject(write_module(step, "hlo"))
    everything = again.candidate(range(len(again.items)))
    assert everything.aliases == step.aliases
    assert argument_types(everything.module) == argument_types(step.bytecode)
    assert text_of(again.module).count("func.func private") > 0
    for name in ("deepinfer.route", "deepinfer.quantize_fp8", "deepinfer.hyper_connection_mix"):
        assert sum(name in item.text for item in again.items) == sum(name in item.text for item in whole.items)
    assert_is_a_part(again, [*range(100, 400)])
    assert {"model/attention.py", "model/moe.py"} <= files_of(again), "XLA drops the lines of calls alone"
