"""XLA:CPU as a program: ``python -m deepinfer_neuron.compiler.targets.host_process MODULE PROGRAM``.

Reads a StableHLO module and writes the compiled program. A refusal is printed as ``error: ...`` and ends with status 1;
what ends a process ends this one only. It starts without torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ...runtime.devices.pjrt_client import client, compile_options, device_list


def main(module: str, program: str) -> int:
    """Compile the file ``module`` into the file ``program``; returns the exit status."""
    try:
        payload = client().compile_and_load(Path(module).read_bytes(), device_list(), compile_options()).serialize()
    except Exception as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    Path(program).write_bytes(payload)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
