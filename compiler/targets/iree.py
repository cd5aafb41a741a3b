"""The IREE target: iree-compile, in a process of its own, for the processor of this machine.

IREE takes the same StableHLO modules as the other targets and shares none of XLA's code below them. Flags: IREE
documentation, "CPU deployment". The module is a StableHLO portable artifact, which other versions can read too.
"""

from __future__ import annotations

import re
import shlex
import threading
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ...errors import CompileCancelledError, CompileError, ConfigError
from ...runtime.artifacts import Artifact
from ...runtime.processor import processor_digest
from ..hlo.convert import portable_artifact
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics, device_options
from .process import ProcessLimits, ProcessResult, run_process
from .working_directory import working_directory

FLAGS = (
    "--iree-input-type=stablehlo",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-llvmcpu-debug-symbols=false",
)

_PACKAGE = "iree-base-compiler"
MODULE, PROGRAM = "module.mlir", "module.vmfb"
"""Names of the files with the module and with what is made of it."""

_ERROR = re.compile(r"^(?:(?P<line>[^\s:]+:\d+):\d+: )?error: (?P<text>.+)$", re.MULTILINE)
_LAST_LINES = 8


@dataclass(frozen=True)
class IreeTarget:
    """Compiles for the processor of this machine.

    Attributes:
        limits: after which a run is killed.
        cancelled: set by ``cancel``.
    """

    name = "iree"

    limits: ProcessLimits
    cancelled: threading.Event = field(default_factory=threading.Event, compare=False)

    def fingerprint(self) -> str:
        """Version of the compiler, its flags and processor features; raises ConfigError if it is not installed."""
        return f"{_PACKAGE} {_installed_version()}; {' '.join(FLAGS)}; cpu {processor_digest()}"

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """What IREE gets right; raises ConfigError for exact numerics, which it has no float64 functions for."""
        if numerics == "exact":
            raise ConfigError("numerics 'exact' repeats eager PyTorch on the host; IREE rounds in its own way")
        return replace(device_options(self.name), pin_bfloat16=True)

    def cancel(self) -> None:
        """See ``Target.cancel``."""
        self.cancelled.set()

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile; see ``Target.compile``.

        Raises:
            CompileError: with everything the compiler said as its ``log``.
            CompileCancelledError: ``cancel`` was called.
            ConfigError: iree-compile is not installed.
        """
        fingerprint = self.fingerprint()
        command = command_line(MODULE, PROGRAM)
        with working_directory() as directory:
            (directory / MODULE).write_bytes(portable_artifact(module.bytecode))
            result = run_process(command, directory, self.limits, self.cancelled)
            if result.outcome == "cancelled":
                raise CompileCancelledError(f"iree: cancelled after {result.seconds:.1f} s; compile again to go on")
            if result.outcome != "ok":
                raise CompileError(_message(result, command), result.output)
            payload = (directory / PROGRAM).read_bytes()
        return module.artifact(self.name, payload, fingerprint, result.output)


def iree_target() -> IreeTarget:
    """The target with the limits that the environment variables set for compilers."""
    return IreeTarget(ProcessLimits.from_settings())


def command_line(module: str, program: str) -> list[str]:
    """What compiles the portable artifact ``module``; raises ConfigError if iree-compile is not installed."""
    return [str(_compiler_path()), *FLAGS, module, "-o", program]


def _installed_version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigError(_missing()) from error


def _compiler_path() -> Path:
    """The executable inside the package: the script of that name only starts it in one more process."""
    # Its parent is a namespace, so the compiler's libraries are not loaded into this process.
    package = find_spec("iree.compiler")
    for location in (package and package.submodule_search_locations) or ():
        path = Path(location) / "_mlir_libs" / "iree-compile"
        if path.exists():
            return path
    raise ConfigError(_missing())


def _missing() -> str:
    return "target iree needs its compiler: pip install 'deepinfer-neuron[iree]'"


def _message(result: ProcessResult, command: list[str]) -> str:
    """The first error with its line of the model, how the compiler ended, and the command."""
    error = _ERROR.search(result.output)
    if result.outcome == "error" and error:
        where = f"{error['line']}: " if error["line"] else ""
        said = f"{where}{error['text']}"
    else:
        printed = [line for line in result.output.splitlines() if line.strip()][-_LAST_LINES:]
        said = "\n  | ".join([f"iree-compile {result.ending}", *(line[:200] for line in printed)])
    return (
        f"iree: {said}\n  next: write the operation in another way, or compile for another target\n"
        f"  iree-compile {result.ending}: {shlex.join(command)}"
    )
