"""Run compiled programs, each in a process of its own: a wrong one may crash, hang or write where it should not."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from safetensors.torch import load_file, save_file
from torch import Tensor

from ...compiler.targets.process import ProcessLimits, ProcessResult, run_process
from ...errors import CompileCancelledError, DeviceError
from ...runtime.artifacts import TensorType
from ..subjects.values import Value
from .execute_process import NO_DEVICE, REQUEST, RESULTS, TENSOR

EXECUTE = (sys.executable, "-m", "deepinfer_neuron.bisection.accuracy.execute_process")
"""What runs a program; the directory of the request follows."""


@dataclass(frozen=True)
class Run:
    """How a program is called.

    Attributes:
        target: whose device runs it.
        payload: file with the program.
        inputs: of the program.
        outputs: their types.
        aliases: output index -> index of the input whose memory it reuses.
        runtime_zero: whether it takes one more int32 scalar, always zero.
        fingerprint: of the compiler.
    """

    target: str
    payload: Path
    inputs: Sequence[Value]
    outputs: Sequence[TensorType]
    aliases: Mapping[int, int]
    runtime_zero: bool
    fingerprint: str


class ValueFiles:
    """Values on disk, each written once for all the programs that read it; removed with this object's ``with``."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="deepinfer-neuron-values-")
        self._lock = threading.Lock()

    def __enter__(self) -> ValueFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._directory.cleanup()

    def path_of(self, value: Value) -> Path:
        """The file with a value."""
        path = Path(self._directory.name) / f"{value.digest}.safetensors"
        with self._lock:
            if not path.exists():
                # A file of safetensors cannot hold parts of a tensor, or one that is laid out in another order.
                save_file({TENSOR: value.tensor.detach().contiguous().clone()}, path)
        return path


def execute(
    run: Run,
    files: ValueFiles,
    directory: Path,
    limits: ProcessLimits,
    cancel: threading.Event,
    command: Sequence[str] = EXECUTE,
) -> tuple[ProcessResult, list[Tensor]]:
    """Run a program once; how the process ended, and the results if it succeeded.

    Args:
        directory: an empty one for the process to work in.

    Raises:
        CompileCancelledError: ``cancel`` was set.
        DeviceError: the device is not there.
        ConfigError: the process cannot be started.
    """
    write_request(run, files, directory)
    result = run_process([*command, str(directory)], directory, limits, cancel)
    if result.outcome == "cancelled":
        raise CompileCancelledError(f"{run.target}: cancelled after {result.seconds:.1f} s")
    if result.outcome == "error" and result.status == NO_DEVICE:
        raise DeviceError(result.output.strip().removeprefix("error: "))
    if result.outcome != "ok":
        return result, []
    results = load_file(directory / RESULTS)
    return result, [results[str(index)] for index in range(len(run.outputs))]


def write_request(run: Run, files: ValueFiles, directory: Path) -> None:
    """Write what the process reads."""
    request = {
        "target": run.target,
        "payload": str(run.payload),
        "inputs": [_type(one.tensor).to_json() for one in run.inputs],
        "outputs": [one.to_json() for one in run.outputs],
        "aliases": sorted(run.aliases.items()),
        "runtime_zero": run.runtime_zero,
        "fingerprint": run.fingerprint,
        "values": [str(files.path_of(one)) for one in run.inputs],
    }
    (directory / REQUEST).write_text(json.dumps(request))


def _type(tensor: Tensor) -> TensorType:
    return TensorType(tensor.dtype, tuple(tensor.shape))
