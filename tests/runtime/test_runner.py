from __future__ import annotations

import threading
import warnings

import pytest
import torch
from deepinfer_neuron.errors import DeviceError, InputError
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.runner import ABOVE_MAXIMUM, NOTHING_COMPILED, DecodeRunner

SCRATCH = 32


def poison(runner: DecodeRunner) -> None:
    """Fill every static buffer with values that would corrupt caches if a padded row kept them."""
    for spec in runner.plan.slots:
        runner._slots.view(spec.name, runner.maximum).fill_(3)


@pytest.mark.parametrize("live", range(1, 7))
def test_every_live_batch_equals_eager_whatever_was_in_the_buffers(pair, inputs_for, live):
    poison(pair.runner)
    pair.assert_step_equal(inputs_for(live))


def test_a_smaller_batch_after_a_larger_one_equals_eager(pair, inputs_for):
    for seed, live in enumerate((6, 3, 1, 5, 2, 4, 6, 1)):
        pair.assert_step_equal(inputs_for(live, seed))


def test_the_smallest_sufficient_program_is_replayed(pair, inputs_for):
    for live in range(1, 7):
        pair.runner(**inputs_for(live))
    assert pair.runner.batch_sizes == (1, 2, 4, 6)
    assert pair.runner.statistics.replays == {1: 1, 2: 1, 4: 2, 6: 2}
    assert pair.runner.statistics.live_rows == 21
    assert pair.runner.statistics.padded_rows == 2
    assert pair.runner.statistics.to_json() == {
        "replays": {"1": 1, "2": 1, "4": 2, "6": 2},
        "live_rows": 21,
        "padded_rows": 2,
        "fallbacks": {},
    }


def test_padded_rows_write_to_the_scratch_row_only(pair, inputs_for):
    before = pair.model.keys.clone(), pair.model.sums.clone()
    inputs = inputs_for(3)
    pair.runner(**inputs)
    untouched = [row for row in range(SCRATCH) if row not in inputs["row"].tolist()]
    assert torch.equal(pair.model.keys[untouched], before[0][untouched])
    assert torch.equal(pair.model.sums[untouched], before[1][untouched])


def test_permuted_requests_get_permuted_rows(pair, inputs_for):
    inputs = inputs_for(5)
    order = torch.tensor([3, 0, 4, 2, 1])
    expected = pair.runner(**inputs)["mixed"].clone()
    actual = pair.runner(**{name: value[order] for name, value in inputs.items()})["mixed"]
    assert torch.equal(actual, expected[order])


def test_outputs_have_live_rows_and_two_replays_differ(pair, inputs_for):
    first = pair.runner(**inputs_for(3, seed=1))["logits"].clone()
    second = pair.runner(**inputs_for(3, seed=2))["logits"]
    assert first.shape == second.shape == (3, 20)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": torch.zeros(2, dtype=torch.int32)},
        {"scale": torch.zeros(2)},
        {"history": torch.zeros(2, 5, dtype=torch.int32)},
        {"row": torch.zeros(3, dtype=torch.int32)},
        {"extra": torch.zeros(2)},
        {"row": None},
    ],
)
def test_wrong_inputs_cannot_run_and_are_refused_untouched(pair, inputs_for, change):
    inputs = {**inputs_for(2), **change}
    assert not pair.runner.can_run(inputs)
    with pytest.raises(InputError):
        pair.runner(**inputs)
    pair.assert_caches_equal()


def test_can_run_is_pure_and_knows_the_maximum(pair, inputs_for):
    poison(pair.runner)
    assert pair.runner.can_run(inputs_for(6))
    assert not pair.runner.can_run(inputs_for(7))
    assert (pair.runner._slots.view("row", 6) == 3).all()
    assert not pair.runner.statistics.replays


def test_above_the_maximum_runs_eager_counted_and_warned_once(pair, inputs_for):
    with pytest.warns(RuntimeWarning, match="9 rows runs in eager"):
        pair.assert_step_equal(inputs_for(9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair.assert_step_equal(inputs_for(8, seed=1))
    assert pair.runner.statistics.fallbacks == {ABOVE_MAXIMUM: 2}
    pair.assert_step_equal(inputs_for(6, seed=2))


def test_without_an_eager_model_a_larger_batch_is_refused(programs, runner_of, decoder, inputs_for):
    runner = runner_of(*programs, decoder(), None)
    with pytest.raises(InputError, match=r"7 rows: the largest compiled size is 6.*no eager model"):
        runner(**inputs_for(7))
    assert runner.statistics.fallbacks == {}


def test_without_programs_everything_runs_eager(programs, runner_of, decoder, inputs_for):
    model, eager = decoder(), decoder()
    runner = runner_of(DecodePlan(programs[0].slots, ()), {}, model, model)
    with pytest.warns(RuntimeWarning, match=NOTHING_COMPILED):
        actual = runner(**inputs_for(2))
    assert torch.equal(actual["logits"], eager(**inputs_for(2))["logits"])
    assert runner.statistics.fallbacks == {NOTHING_COMPILED: 1}


def test_caches_are_updated_in_their_own_memory_without_a_copy(pair, inputs_for):
    addresses = [pair.model.keys.data_ptr(), pair.model.sums.data_ptr()]
    for seed, live in enumerate((1, 4, 6, 2)):
        pair.runner(**inputs_for(live, seed))
        assert sorted(root.unsafe_buffer_pointer() for root in pair.runner._roots) == sorted(addresses)
    for executable in (one for program in pair.runner._programs for one in program.executables):
        text = executable.optimized_hlo()
        assert not [line for line in text.splitlines() if " copy(" in line and "[33,16]" in line.split(" copy(")[0]]


def test_eager_writes_are_seen_by_the_next_replay(pair, inputs_for):
    pair.assert_step_equal(inputs_for(4))
    for model in (pair.model, pair.eager):
        model.keys[3:9] = 0.5
        model.sums.mul_(2)
        model.head.copy_(model.head * 3)
    pair.assert_step_equal(inputs_for(4, seed=1))


def test_reallocated_tensors_are_refused(programs, inputs_for, pair):
    pair.runner(**inputs_for(2))
    for name in ("embed", "keys"):
        old = getattr(pair.model, name).data
        getattr(pair.model, name).data = old.clone()
        with pytest.raises(InputError, match=f"'{name}' was re-allocated"):
            pair.runner(**inputs_for(2))
        getattr(pair.model, name).data = old
    pair.model.head = torch.nn.Parameter(pair.model.head.clone(), requires_grad=False)
    with pytest.raises(InputError, match="'head' was re-allocated"):
        pair.runner(**inputs_for(2))


def test_another_thread_is_refused(pair, inputs_for):
    errors: list[Exception] = []

    def call():
        try:
            pair.runner(**inputs_for(2))
        except DeviceError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "another thread" in str(errors[0])
    pair.assert_step_equal(inputs_for(2))


def test_warm_up_leaves_caches_random_state_and_statistics_alone(pair, inputs_for):
    state = torch.get_rng_state()
    pair.runner.warm_up()
    assert torch.equal(torch.get_rng_state(), state)
    assert not pair.runner.statistics.replays
    pair.assert_caches_equal()
    pair.assert_step_equal(inputs_for(3))


def test_a_failed_execution_leaves_the_runner_usable(pair, inputs_for, monkeypatch):
    program = pair.runner._programs[1]

    def fail(arguments):
        raise DeviceError("the device failed")

    with monkeypatch.context() as patched:
        patched.setattr(program.executables[-1], "execute", fail)
        with pytest.raises(DeviceError, match="the device failed"):
            pair.runner(**inputs_for(2))
    pair.assert_step_equal(inputs_for(2))


def test_an_interrupt_after_caches_were_consumed_leaves_the_runner_usable(pair, inputs_for, monkeypatch):
    program = pair.runner._programs[1]
    updating = next(one for one in program.executables if one.artifact.aliases)
    execute = updating.execute

    def interrupt(arguments):
        execute(arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(updating, "execute", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pair.runner(**inputs_for(2))
    assert not any(root.is_deleted() for root in pair.runner._roots)
    pair.assert_step_equal(inputs_for(2))
    pair.assert_step_equal(inputs_for(2, seed=1))


def test_weights_in_unusable_memory_are_moved_in_the_model(programs, runner_of, decoder, inputs_for):
    model, eager = decoder(), decoder()
    flat = torch.empty(model.head.numel() + 1)
    model.head.data = flat[1:].view_as(model.head).copy_(model.head)
    runner = runner_of(*programs, model, model)
    assert model.head.data_ptr() % 64 == 0
    torch.testing.assert_close(runner(**inputs_for(2)), eager(**inputs_for(2)))


def test_tensors_may_come_from_a_mapping(programs, runner_of, decoder, inputs_for):
    model, eager = decoder(), decoder()
    runner = runner_of(*programs, model.state_dict(keep_vars=True), model)
    torch.testing.assert_close(runner(**inputs_for(2)), eager(**inputs_for(2)))


def test_a_missing_tensor_is_named(programs, runner_of, decoder):
    tensors = decoder().state_dict()
    del tensors["sums"]
    with pytest.raises(InputError, match="no tensor 'sums'"):
        runner_of(*programs, tensors, decoder())
