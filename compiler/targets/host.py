"""The host target: XLA's CPU compiler, from jaxlib."""

from __future__ import annotations

import re
import signal
import sys
import threading
from dataclasses import dataclass, field, replace
from typing import Self

from ...errors import CompileCancelledError, CompileError
from ...runtime.artifacts import Artifact
from ...runtime.devices.pjrt_client import client, compile_options, device_list, machine_fingerprint
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics
from .command import CompilerCommand, CompilerRun, run_compiler
from .process import ProcessLimits
from .working_directory import working_directory

_LOCATION = re.compile(r'loc\("?([^")]+)"?:(\d+):\d+')
_REFUSAL = re.compile(r"^error: (.*)", re.MULTILINE | re.DOTALL)
_CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}
_PROCESS = f"{__package__}.host_process"


@dataclass(frozen=True)
class HostTarget:
    """Compiles for the processor of this machine.

    Attributes:
        is_isolated: compile in a process of its own instead of in this one.
        cancelled: see ``Target.cancelled``.
    """

    name = "host"

    is_isolated: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event, compare=False)

    def fingerprint(self) -> str:
        """jaxlib version, XLA flags and processor features."""
        return machine_fingerprint()

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """Single-row dots are padded: XLA:CPU's matrix-vector path is eight times slower."""
        return LoweringOptions(numerics=numerics, pad_single_row_dot=True, float64=True)

    def command(self) -> CompilerCommand:
        """See ``Target.command``; the process needs the interpreter's own environment."""
        return CompilerCommand(
            name=self.name,
            command=(sys.executable, "-m", _PROCESS, "{input}", "{output}"),
            input_name="module.mlir",
            output_name="module.xla",
            format="mlir",
            fingerprint=self.fingerprint(),
        )

    def isolated(self) -> Self:
        """See ``Target.isolated``."""
        return replace(self, is_isolated=True)

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile; see ``Target.compile``."""
        if self.is_isolated:
            return self._compile_in_process(module)
        try:
            loaded = client().compile_and_load(module.bytecode, device_list(), compile_options())
        except Exception as error:
            raise CompileError(_message(str(error))) from error
        # Serialised before any execution: XLA resolves comparators on first use and cannot write them afterwards.
        payload = loaded.serialize()
        return module.artifact(self.name, payload, self.fingerprint())

    def _compile_in_process(self, module: LoweredModule) -> Artifact:
        command = self.command()
        with working_directory() as directory:
            run = run_compiler(command, directory, module.bytecode, ProcessLimits.from_settings(), self.cancelled)
            if not run.succeeded:
                raise _failure(run)
            payload = (directory / command.output_name).read_bytes()
        return module.artifact(self.name, payload, command.fingerprint, run.log)


def _message(error: str) -> str:
    location = _LOCATION.search(error)
    where = f" at {location[1]}:{location[2]}" if location else ""
    return f"XLA:CPU refused the module{where}: {error}"


def _failure(run: CompilerRun) -> CompileError | CompileCancelledError:
    """A refusal or a crash, which would come again, or a kill from outside, which says nothing about the module."""
    refusal = _REFUSAL.search(run.log)
    if run.result.outcome == "error" and refusal:
        return CompileError(_message(refusal[1].strip()), run.log)
    ended_by = -run.result.status if run.result.outcome == "signal" else 0
    if ended_by and ended_by not in _CRASHES:
        hint = ", perhaps because memory ran out: try fewer --jobs" if ended_by == signal.SIGKILL else ""
        return CompileCancelledError(f"XLA:CPU {run.result.ending}{hint}")
    return CompileError(f"XLA:CPU {run.damage or run.result.ending}\n{run.log}".strip(), run.log)
