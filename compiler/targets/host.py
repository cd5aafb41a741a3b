"""The host target: XLA's CPU compiler, from jaxlib."""

from __future__ import annotations

import re

from ...errors import CompileError
from ...runtime.artifacts import Artifact
from ...runtime.devices.pjrt_client import client, compile_options, device_list, machine_fingerprint
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics

_LOCATION = re.compile(r'loc\("?([^")]+)"?:(\d+):\d+')


class HostTarget:
    """Compiles for the processor of this machine, in this process."""

    name = "host"

    def fingerprint(self) -> str:
        """jaxlib version, XLA flags and processor features."""
        return machine_fingerprint()

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """Single-row dots are padded: XLA:CPU's matrix-vector path is eight times slower."""
        return LoweringOptions(numerics=numerics, pad_single_row_dot=True, float64=numerics == "exact")

    def cancel(self) -> None:
        """Nothing: XLA compiles in the calling thread."""

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile; see ``Target.compile``."""
        try:
            loaded = client().compile_and_load(module.bytecode, device_list(), compile_options())
        except Exception as error:
            raise CompileError(_message(str(error))) from error
        # Serialised before any execution: XLA resolves comparators on first use and cannot write them afterwards.
        payload = loaded.serialize()
        return module.artifact(self.name, payload, self.fingerprint())


def _message(error: str) -> str:
    location = _LOCATION.search(error)
    where = f" at {location[1]}:{location[2]}" if location else ""
    return f"XLA:CPU refused the module{where}: {error}"
