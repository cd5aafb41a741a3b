"""A worker: compiles the modules that it is sent into a store, until nothing more is sent.

Run as ``python -m deepinfer_neuron.compiler.workers.worker TARGET STORE [SHARED...]``, with jobs on its standard input
and answers on its standard output.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from ...errors import DeepInferNeuronError
from ...runtime.store.programs import PROGRAM, made_program
from ...runtime.store.store import ArtifactStore
from ..targets.base import Target
from ..targets.table import find_target
from .messages import Answer, Job, receive_job, send_answer


def serve(jobs: BinaryIO, answers: BinaryIO, target: Target, store: ArtifactStore) -> None:
    """Answer every job in turn."""
    while job := receive_job(jobs):
        send_answer(answers, compile_job(job, target, store))


def compile_job(job: Job, target: Target, store: ArtifactStore) -> Answer:
    """Compile a job into the store, or find that another process did meanwhile."""
    start = time.perf_counter()
    try:
        entry, outcome = store.get_or_make(job.key, lambda: made_program(target.compile(job.module), job.name))
    except DeepInferNeuronError as error:
        return Answer(None, time.perf_counter() - start, error=str(error))
    seconds = time.perf_counter() - start
    if entry.directory is None:
        return Answer(None, seconds, error=f"it was compiled, but {store.local.root} cannot be written")
    return Answer(outcome, seconds, entry.manifest.files[PROGRAM].size)


def main(arguments: list[str]) -> None:
    """Serve with the target and the store of the command line."""
    target, local, *shared = arguments
    signal.signal(signal.SIGTERM, _leave)
    # Libraries may print: what they print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers, find_target(target), ArtifactStore(Path(local), [Path(one) for one in shared]))


def _leave(number: int, frame: FrameType | None) -> None:
    """End as if by an exception, so that locks and temporary files go too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main(sys.argv[1:])
