from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deepinfer_neuron.errors import CompileCancelledError
from deepinfer_neuron.runtime.store.lock import LockOutcome, Patience, key_lock, remove_stale
from deepinfer_neuron.runtime.store.owner import Owner

QUICK = Patience(wait_s=0.1, message_after_s=0.0, abandoned_after_s=100.0, poll_s=0.01)


@contextmanager
def held(lock: Path, patience: Patience = QUICK) -> Iterator[LockOutcome]:
    claim = lock.parent.parent / uuid.uuid4().hex
    with key_lock(lock, claim, patience, "program 12") as outcome:
        yield outcome
    assert not claim.exists()


def dead_process() -> Owner:
    command = "from deepinfer_neuron.runtime.store.owner import Owner; print(Owner.this_process().to_text())"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    owner = Owner.from_text(result.stdout)
    assert owner is not None
    return owner


def elsewhere() -> Owner:
    return Owner("another-host", 1, "boot:1")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "key.lock"


def leave(lock: Path, owner: Owner, age_s: float = 0.0) -> None:
    lock.parent.mkdir()
    lock.write_text(owner.to_text())
    os.utime(lock, (time.time() - age_s,) * 2)


def test_a_lock_names_its_owner_and_leaves_nothing(lock: Path) -> None:
    with held(lock) as outcome:
        assert outcome == "free"
        assert Owner.from_text(lock.read_text()) == Owner.this_process()
    assert list(lock.parent.iterdir()) == []


def test_a_lock_is_released_after_an_error(lock: Path) -> None:
    with pytest.raises(KeyboardInterrupt), held(lock):
        raise KeyboardInterrupt
    assert list(lock.parent.iterdir()) == []


def test_one_waits_for_a_living_owner(lock: Path) -> None:
    started, release = threading.Event(), threading.Event()

    def hold() -> None:
        with held(lock):
            started.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    started.wait()
    threading.Timer(0.2, release.set).start()
    with held(lock, Patience()) as outcome:
        assert outcome == "waited"
    thread.join()


def test_the_wait_ends_with_a_message(lock: Path, caplog: pytest.LogCaptureFixture) -> None:
    leave(lock, Owner.this_process())
    with caplog.at_level(logging.WARNING), held(lock) as outcome:
        assert outcome == "unlocked"
    assert f"waiting for process {os.getpid()} on" in caplog.messages[0]
    assert "going on without it" in caplog.messages[-1]
    assert Owner.from_text(lock.read_text()) == Owner.this_process()


def test_the_lock_of_a_dead_process_is_taken_over(lock: Path) -> None:
    leave(lock, dead_process())
    with held(lock) as outcome:
        assert outcome == "free"
    assert list(lock.parent.iterdir()) == []


def test_a_process_number_that_is_used_again_is_another_process(lock: Path) -> None:
    owner = Owner.this_process()
    leave(lock, Owner(owner.host, owner.pid, "boot:0"))
    with held(lock) as outcome:
        assert outcome == "free"


def test_the_lock_of_another_host_is_taken_over_only_when_it_is_old(lock: Path) -> None:
    leave(lock, elsewhere(), age_s=50)
    with held(lock) as outcome:
        assert outcome == "unlocked"
    os.utime(lock, (time.time() - 150,) * 2)
    with held(lock) as outcome:
        assert outcome == "free"


@pytest.mark.parametrize("text", ["", "{", json.dumps({"pid": 1}), json.dumps({"host": "h", "pid": "x", "start": ""})])
def test_a_lock_without_a_readable_owner_counts_as_that_of_another_host(lock: Path, text: str) -> None:
    leave(lock, elsewhere(), age_s=150)
    lock.write_text(text)
    with held(lock) as outcome:
        assert outcome == "unlocked"


def test_of_many_that_find_a_stale_lock_one_has_it_at_a_time(lock: Path) -> None:
    leave(lock, dead_process())
    inside, most = [], []

    def work() -> None:
        with held(lock, Patience(poll_s=0.001)):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.005)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8
    assert max(most) == 1


def test_no_lock_is_needed_where_none_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file in the way")
    with key_lock(tmp_path / "locks" / "key.lock", tmp_path / "claim", QUICK, "x") as outcome:
        assert outcome == "unlocked"


def test_only_stale_locks_are_removed(lock: Path) -> None:
    leave(lock, Owner.this_process())
    assert not remove_stale(lock, 100.0)
    lock.write_text(dead_process().to_text())
    assert remove_stale(lock, 100.0)
    assert not remove_stale(lock, 100.0)


def test_an_interrupted_wait_leaves_nothing(lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(event: threading.Event, seconds: float) -> None:
        raise KeyboardInterrupt

    leave(lock, Owner.this_process())
    monkeypatch.setattr(threading.Event, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt), held(lock):
        raise AssertionError("not reached")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [lock]


def test_a_cancelled_wait_leaves_nothing(lock: Path, tmp_path: Path) -> None:
    leave(lock, Owner.this_process())
    cancelled = threading.Event()
    cancelled.set()
    waiting = key_lock(lock, tmp_path / "claim", Patience(), "program 12", cancelled)
    with pytest.raises(CompileCancelledError, match=r"cancelled while process \d+ on .* made program 12"), waiting:
        raise AssertionError("not reached")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [lock]
