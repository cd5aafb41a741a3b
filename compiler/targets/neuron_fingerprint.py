"""What decides a program of neuronx-cc besides the module, as one line of text.

A server asks for it too, where no compiler may be installed: nothing of the lowering is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...settings import ModuleFormat, settings
from .flags import CompilerFlags, default_flags, merge_flags
from .neuron_compiler import find_compiler

MODULE_FILES: dict[ModuleFormat, str] = {"mlir": "module.mlir", "hlo": "module.hlo.pb"}
"""Names of the file with the module, by its format."""

_COMPILER = "neuronx-cc"


@dataclass(frozen=True)
class NeuronFingerprint:
    """The fingerprints of one way to call the compiler, by its version.

    Attributes:
        flags: what the compiler is told.
        module_format: what it reads.
        kernels: digest of the device kernels that programs may have, for plans; empty for one program, or without any.
    """

    flags: CompilerFlags
    module_format: ModuleFormat = "mlir"
    kernels: str = ""

    def of_version(self, version: str) -> str:
        """Version of the compiler, flags in their one order, format of the module, kernels."""
        called = f"{_COMPILER} {version}; {' '.join(self.flags.words)}; {MODULE_FILES[self.module_format]}"
        return with_kernels(called, self.kernels)

    def of_installed(self, named: Path | None) -> str:
        """That of the compiler at ``named`` or on the search path; raises what ``find_compiler`` raises."""
        return self.of_version(find_compiler(named).version)

    def is_of_some_version(self, fingerprint: str) -> bool:
        """Whether a fingerprint differs in nothing but the version of the compiler."""
        return fingerprint == self.of_version(version_in(fingerprint))


def asked_fingerprint(target: str) -> NeuronFingerprint:
    """Flags and format for ``trn1``, ``trn2`` or ``trn3`` as the environment variables ask for them.

    Raises ConfigError if they contradict the target.
    """
    asked = settings()
    flags = merge_flags(default_flags(target, asked.logical_core_size), asked.compiler_flags)
    return NeuronFingerprint(flags, asked.module_format)


def with_kernels(fingerprint: str, kernels: str) -> str:
    """The fingerprint of a plan, from that of its target and the digest of kernels, if it may have any."""
    return f"{fingerprint}; kernels {kernels}" if kernels else fingerprint


def version_in(fingerprint: str) -> str:
    """The compiler's version in a fingerprint; empty if it is none of neuronx-cc."""
    words = fingerprint.partition(";")[0].split(" ")
    return words[1] if len(words) == 2 and words[0] == _COMPILER else ""
