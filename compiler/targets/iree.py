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
from typing import Self

from ...errors import CompileError, ConfigError
from ...runtime.artifacts import Artifact
from ...runtime.processor import processor_digest
from ..hlo.convert import portable_artifact
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics, device_options
from .command import CompilerCommand, CompilerRun, run_compiler
from .process import ProcessLimits
from .working_directory import working_directory

FLAGS = (
    "--iree-input-type=stablehlo",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-llvmcpu-debug-symbols=false",
)

_PACKAGE = "iree-base-compiler"
_ERROR = re.compile(r"^(?:(?P<line>[^\s:]+:\d+):\d+: )?error: (?P<text>.+)$", re.MULTILINE)
_LAST_LINES = 8


@dataclass(frozen=True)
class IreeTarget:
    """Compiles for the processor of this machine.

    Attributes:
        limits: after which a run is killed.
        cancelled: see ``Target.cancelled``.
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

    def command(self) -> CompilerCommand:
        """See ``Target.command``."""
        return CompilerCommand(
            name=self.name,
            command=(str(_compiler_path()), *FLAGS, "{input}", "-o", "{output}"),
            input_name="module.mlir",
            output_name="module.vmfb",
            format="portable",
            fingerprint=self.fingerprint(),
        )

    def isolated(self) -> Self:
        """See ``Target.isolated``."""
        return self

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile; see ``Target.compile``.

        Raises:
            CompileError: with everything the compiler said as its ``log``.
            CompileCancelledError: ``cancelled`` was set.
            ConfigError: iree-compile is not installed.
        """
        command = self.command()
        content = portable_artifact(module.bytecode)
        with working_directory() as directory:
            run = run_compiler(command, directory, content, self.limits, self.cancelled)
            if not run.succeeded:
                raise CompileError(_message(run, command), run.log)
            payload = (directory / command.output_name).read_bytes()
        return module.artifact(self.name, payload, command.fingerprint, run.log)


def iree_target() -> IreeTarget:
    """The target with the limits that the environment variables set for compilers."""
    return IreeTarget(ProcessLimits.from_settings())


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


def _message(run: CompilerRun, command: CompilerCommand) -> str:
    """The first error with its line of the model, how the compiler ended, and the command."""
    error, ending = _ERROR.search(run.log), run.damage or run.result.ending
    if run.result.outcome == "error" and error:
        where = f"{error['line']}: " if error["line"] else ""
        said = f"{where}{error['text']}"
    else:
        printed = [line for line in run.log.splitlines() if line.strip()][-_LAST_LINES:]
        said = "\n  | ".join([f"iree-compile {ending}", *(line[:200] for line in printed)])
    return (
        f"iree: {said}\n  next: write the operation in another way, or compile for another target\n"
        f"  iree-compile {ending}: {shlex.join(command.words())}"
    )
