"""Runs of compiled programs in this process: what a process of their own would do, without its seconds to start."""

from __future__ import annotations

import threading
from pathlib import Path

from deepinfer_neuron.bisection.accuracy import execute_process
from deepinfer_neuron.bisection.accuracy.execution import Run, ValueFiles, write_request
from deepinfer_neuron.compiler.targets.process import ProcessLimits, ProcessResult
from safetensors.torch import load
from torch import Tensor


def execute_here(
    run: Run, files: ValueFiles, directory: Path, limits: ProcessLimits, cancel: threading.Event
) -> tuple[ProcessResult, list[Tensor]]:
    """``execution.execute`` for programs that are known to end well."""
    write_request(run, files, directory)
    assert execute_process.main(directory) == 0
    results = load((directory / execute_process.RESULTS).read_bytes())
    return ProcessResult("ok", 0, 0.0, ""), [results[str(index)] for index in range(len(run.outputs))]
