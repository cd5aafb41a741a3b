from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from deepinfer_neuron.compiler.programs.compiling_threads import compiling_threads


@dataclass
class SlowTarget:
    """A target whose compilations last until they are cancelled."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)

    def run(self) -> str:
        self.started.set()
        return "cancelled" if self.cancelled.wait(timeout=60) else "done"


def test_an_interrupt_cancels_what_runs_and_drops_what_waits():
    target = SlowTarget()
    with pytest.raises(KeyboardInterrupt), compiling_threads(target, 1) as pool:
        futures = [pool.submit(target.run) for _ in range(2)]
        target.started.wait(timeout=60)
        raise KeyboardInterrupt
    assert futures[0].result() == "cancelled"
    assert futures[-1].cancelled()


def test_another_error_lets_compilations_end():
    target = SlowTarget()
    with pytest.raises(ValueError), compiling_threads(target) as pool:
        future = pool.submit(target.started.wait, 60)
        target.started.set()
        raise ValueError
    assert future.result() and not target.cancelled.is_set()


def test_no_more_wait_than_are_compiled():
    target = SlowTarget()
    submitted: list[int] = []
    with compiling_threads(target, 2) as pool:

        def submit():
            for number in range(5):
                pool.submit(target.run)
                submitted.append(number)

        thread = threading.Thread(target=submit)
        thread.start()
        thread.join(timeout=0.5)
        assert len(submitted) <= 4
        target.cancelled.set()
        thread.join(timeout=60)
    assert submitted == [0, 1, 2, 3, 4]
