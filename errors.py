"""Every error this package raises on purpose.

An error says what was wrong, what was expected and what to do next. Code that
catches ``DeepInferNeuronError`` catches all of them and nothing else.
"""

from __future__ import annotations


class DeepInferNeuronError(Exception):
    """Base class of all errors raised by this package."""


class ConfigError(DeepInferNeuronError):
    """A model configuration is missing a key, mistyped or contradicts itself."""


class CompilerMissingError(ConfigError):
    """A target's compiler is not installed; a machine that only loads what is stored needs none."""


class CheckpointError(DeepInferNeuronError):
    """A checkpoint directory cannot be read as the layout it claims; lists every offending name."""


class CaptureError(DeepInferNeuronError):
    """A function could not be captured as one static graph; names the source line."""


class LoweringError(DeepInferNeuronError):
    """An operator has no lowering; names the operator, its overload and the source line."""


class CompileError(DeepInferNeuronError):
    """A target compiler refused or crashed on a module.

    ``log`` is everything the compiler said, if it is a program of its own.
    """

    def __init__(self, message: str, log: str = ""):
        super().__init__(message)
        self.log = log


class CompileCancelledError(DeepInferNeuronError):
    """A compilation was ended from outside; says nothing about the module."""


class DeviceError(DeepInferNeuronError):
    """A device refused a program, a buffer or an execution."""


class InputError(DeepInferNeuronError):
    """A caller passed a tensor, token or batch that the callee cannot take."""


class ArtifactError(DeepInferNeuronError):
    """A file written by one of our commands is damaged, truncated or of another kind."""


class StoreMissError(ArtifactError):
    """A store does not hold what was asked of it; says in what the nearest entry differs."""


class GraphError(DeepInferNeuronError):
    """A captured graph breaks a rule that the lowering relies on; names the rule and the node."""


class BisectError(DeepInferNeuronError):
    """A failure cannot be reduced, for example because it does not come again."""


class BudgetError(BisectError):
    """The budget of a bisection ended before the failure was seen."""
