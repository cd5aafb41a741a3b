"""One run of a program on its device: ``python -m deepinfer_neuron.bisection.accuracy.execute_process DIRECTORY``.

The directory holds what ``execution.write_request`` wrote. A refusal of the device is printed as ``error: ...`` and
ends with status 1, a device that is not there with ``NO_DEVICE``; what ends a process ends this one only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from ...errors import ConfigError, DeviceError
from ...runtime.artifacts import Artifact, TensorType
from ...runtime.devices.choice import device_for
from ...runtime.memory import shareable_copy
from .leave import leave

REQUEST, RESULTS = "request.json", "results.safetensors"
TENSOR = "tensor"
"""Name of the one tensor in a file with an input."""

NO_DEVICE = 3
"""Exit status where the device is not there."""


def main(directory: Path) -> int:
    """Load, run, and write the results beside the request; returns the exit status."""
    request = json.loads((directory / REQUEST).read_bytes())
    artifact = Artifact(
        target=request["target"],
        payload=Path(request["payload"]).read_bytes(),
        inputs=tuple(map(TensorType.from_json, request["inputs"])),
        outputs=tuple(map(TensorType.from_json, request["outputs"])),
        aliases=dict(request["aliases"]),
        runtime_zero=request["runtime_zero"],
        fingerprint=request["fingerprint"],
    )
    inputs = [shareable_copy(load_file(path)[TENSOR]) for path in request["values"]]
    try:
        device = device_for(artifact.target)
    except (ConfigError, DeviceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_DEVICE
    try:
        updated = set(artifact.aliases.values())
        executable = device.load(artifact)
        buffers = [device.buffer(one, donatable=index in updated) for index, one in enumerate(inputs)]
        results = [device.to_torch(one).clone().contiguous() for one in executable.execute(buffers)]
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    save_file({str(index): one for index, one in enumerate(results)}, directory / RESULTS)
    return 0


if __name__ == "__main__":
    leave(main(Path(sys.argv[1])))
