"""The Trainium targets: neuronx-cc, in a process of its own.

The command, its private working directory and the format of the module are those of public Neuron software: TorchNeuron
(StableHLO bytecode in ``module.mlir`` with ``--framework XLA``) and NKIPy.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ...errors import ArtifactError, CompileError, ConfigError
from ...runtime.artifacts import Artifact
from ...runtime.neff.reader import read_neff
from ...settings import ModuleFormat, settings
from ..hlo.convert import write_module
from ..lowering.lower import LoweredModule
from ..lowering.options import KernelTarget, LoweringOptions, Numerics, device_options
from .command import CompilerCommand, run_compiler
from .explanation import meaning_of
from .failure_report import FailedRun, report_failure
from .flags import CompilerFlags
from .neuron_compiler import find_compiler
from .neuron_fingerprint import MODULE_FILES, NeuronFingerprint, asked_fingerprint
from .operation_lines import operation_lines
from .process import ProcessLimits
from .working_directory import working_directory

INTERNAL_ERROR_STATUS = 70
"""The status of a compiler that failed on a module itself, which has been seen to pass when it is run again."""

_LOG = "log-neuron-cc.txt"


@dataclass(frozen=True)
class NeuronTarget:
    """Compiles for one family of Trainium devices.

    Attributes:
        flags: what the compiler is told.
        compiler: its executable; None for the one on the search path.
        limits: after which a run is killed.
        retries: how often a module is tried again when the compiler failed without refusing it.
        module_format: what the compiler reads, see ``hlo.convert.write_module``.
        use_kernels: let device kernels replace the bodies of operators.
        cancelled: see ``Target.cancelled``.
    """

    flags: CompilerFlags
    compiler: Path | None = None
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    retries: int = 2
    module_format: ModuleFormat = "mlir"
    use_kernels: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event, compare=False)

    @property
    def name(self) -> str:
        """``trn1``, ``trn2`` or ``trn3``."""
        return self.flags.target

    def fingerprint(self) -> str:
        """See ``NeuronFingerprint``; raises ConfigError without a compiler."""
        return NeuronFingerprint(self.flags, self.module_format).of_installed(self.compiler)

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """What the device lacks is not in modules; raises ConfigError for exact numerics, which are this machine's."""
        if numerics == "exact":
            raise ConfigError(f"numerics 'exact' repeats eager PyTorch on this machine and is no use for {self.name}")
        kernels = KernelTarget(self.name, self.flags.logical_core_size) if self.use_kernels else None
        return replace(device_options(self.name), kernels_for=kernels)

    def command(self) -> CompilerCommand:
        """See ``Target.command``."""
        compiler = find_compiler(self.compiler)
        words = self.flags.command_line(Path("{input}"), Path("{output}"), Path(_LOG), str(compiler.path))
        return CompilerCommand(
            name=self.name,
            command=tuple(words),
            input_name=MODULE_FILES[self.module_format],
            output_name="module.neff",
            format=self.module_format,
            fingerprint=NeuronFingerprint(self.flags, self.module_format).of_version(compiler.version),
            log_name=_LOG,
            damage=self._damage,
        )

    def isolated(self) -> Self:
        """See ``Target.isolated``."""
        return self

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile; see ``Target.compile``.

        Raises:
            CompileError: with everything the compiler said as its ``log``.
            CompileCancelledError: ``cancelled`` was set.
            ConfigError: no compiler, or no local directory for it to work in.
        """
        command, content = self.command(), write_module(module, self.module_format)
        failed: list[FailedRun] = []
        with working_directory() as parent:
            for attempt in range(1 + self.retries):
                directory = parent / str(attempt)
                directory.mkdir()
                _write_files(directory, module)
                run = run_compiler(command, directory, content, self.limits, self.cancelled)
                if run.succeeded:
                    payload = (directory / command.output_name).read_bytes()
                    return module.artifact(self.name, payload, command.fingerprint, run.log)
                failed.append(FailedRun(run.result, run.log, run.damage))
                if not is_intermittent(failed[-1]):
                    break
        message = report_failure(command, failed, lambda opcode: operation_lines(module.bytecode, opcode))
        raise CompileError(message, "\n".join(run.log for run in failed))

    def _damage(self, path: Path) -> str:
        """What is wrong with the program the compiler wrote; its hash is the Neuron runtime's to check."""
        try:
            read_neff(path, target=self.name, logical_core_size=self.flags.logical_core_size, verify_hash=False)
        except FileNotFoundError:
            return f"it wrote no {path.name}"
        except ArtifactError as error:
            return str(error).replace(f"{path.parent}/", "")
        return ""


def neuron_target(name: str) -> NeuronTarget:
    """The target of that name as the environment variables ask for it; raises ConfigError if they contradict it."""
    asked, called = settings(), asked_fingerprint(name)
    return NeuronTarget(
        flags=called.flags,
        compiler=asked.compiler,
        limits=ProcessLimits.from_settings(),
        retries=asked.compiler_retries,
        module_format=called.module_format,
        use_kernels=asked.nki == "auto",
    )


def is_intermittent(run: FailedRun) -> bool:
    """Whether another try may succeed: an internal error, or a damaged program. A refusal is final."""
    if run.damage:
        return True
    meaning = meaning_of(run.cause) if run.cause else None
    return run.result.status == INTERNAL_ERROR_STATUS and (meaning is None or meaning.kind == "internal error")


def _write_files(directory: Path, module: LoweredModule) -> None:
    """The files of kernels, where the compiler looks for them when their absolute path is gone."""
    for name, content in module.files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
