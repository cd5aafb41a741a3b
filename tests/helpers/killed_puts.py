"""Kill processes that put an entry into a store, each at another file system call, and look at what is left.

Run as ``killed_puts.py ROOT SIZE STRIDE``: a child is killed before its 1st, (1 + STRIDE)th, (1 + 2 STRIDE)th ... call
until one lives to the end. Prints a JSON object with the number of kills and everything that was wrong afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.lock import Patience
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made

KEY = ArtifactKey("program", {"target": "host"}, {"graph": "%0 = x"})
FILE_SYSTEM = {"posix", "_io"}


def is_file_system_call(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return getattr(function, "__module__", None) in FILE_SYSTEM or type(owner).__module__ in FILE_SYSTEM


def die_before_call(number: int) -> None:
    """Have this process killed before that call from Python into the file system, counting from 1."""
    calls = 0

    def count(frame: Any, event: str, function: Any) -> None:
        nonlocal calls
        if event == "c_call" and is_file_system_call(function):
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def open_store(root: Path) -> ArtifactStore:
    return ArtifactStore(root, patience=Patience(wait_s=1.0))


def put_and_die(root: Path, payload: bytes, number: int) -> bool:
    """Whether a child that makes the entry was killed."""
    child = os.fork()
    if child == 0:
        die_before_call(number)
        open_store(root).get_or_make(KEY, lambda: Made({"program": payload}, {"n": 1}))
        sys.setprofile(None)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def problems_after(root: Path, payload: bytes) -> list[str]:
    """What is wrong with a store in which a put was killed."""
    store = open_store(root)
    problems = []
    if store.verify():
        problems.append("a damaged entry was published")
    entry = store.get(KEY)
    if entry is not None and entry.read("program") != payload:
        problems.append("a wrong entry was served")
    again, outcome = store.get_or_make(KEY, lambda: Made({"program": payload}, {"n": 1}))
    if again.directory is None or again.read("program") != payload or outcome == "waited":
        problems.append(f"the store is not usable: {outcome}, stored in {again.directory}")
    store.evict()
    left = [
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and again.digest not in path.parts
    ]
    return problems + ([f"left behind: {left}"] if left else [])


def main(root: Path, size: int, stride: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    kills, wrong, number = 0, {}, 1
    while put_and_die(root, payload, number):
        kills += 1
        if problems := problems_after(root, payload):
            wrong[number] = problems
        shutil.rmtree(root)
        number += stride
    shutil.rmtree(root)
    print(json.dumps({"kills": kills, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
