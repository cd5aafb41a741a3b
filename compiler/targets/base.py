"""What every compile target offers."""

from __future__ import annotations

import threading
from typing import Protocol, Self

from ...runtime.artifacts import Artifact
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics
from .command import CompilerCommand


class Target(Protocol):
    """A compiler for one kind of device."""

    @property
    def name(self) -> str:
        """The name users select it by."""
        ...

    @property
    def cancelled(self) -> threading.Event:
        """Set it to end the compilations of other threads, and those to come, if they run in processes of their own."""
        ...

    def fingerprint(self) -> str:
        """Everything besides the module that decides the program: compiler version, flags, machine features."""
        ...

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """How modules for this target are lowered."""
        ...

    def command(self) -> CompilerCommand:
        """How the compiler is started as a process; raises ConfigError if it is not installed."""
        ...

    def isolated(self) -> Self:
        """The same target, with a process for each compilation: one that crashes ends nothing else."""
        ...

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile a module.

        Raises:
            CompileError: the compiler refused it, with the model's source line if the compiler names one.
            CompileCancelledError: ``cancelled`` was set, or somebody else killed the compiler.
        """
        ...
