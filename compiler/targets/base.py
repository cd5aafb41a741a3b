"""What every compile target offers."""

from __future__ import annotations

from typing import Protocol

from ...runtime.artifacts import Artifact
from ..lowering.lower import LoweredModule
from ..lowering.options import LoweringOptions, Numerics


class Target(Protocol):
    """A compiler for one kind of device."""

    @property
    def name(self) -> str:
        """The name users select it by."""
        ...

    def fingerprint(self) -> str:
        """Everything besides the module that decides the program: compiler version, flags, machine features."""
        ...

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        """How modules for this target are lowered."""
        ...

    def compile(self, module: LoweredModule) -> Artifact:
        """Compile a module.

        Raises:
            CompileError: the compiler refused it, with the model's source line if the compiler names one.
            CompileCancelledError: ``cancel`` was called.
        """
        ...

    def cancel(self) -> None:
        """End the compilations of other threads, and those to come, if they run in processes of their own."""
        ...
