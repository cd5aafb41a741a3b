"""Runs of compilers within the limits that the environment sets."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import ConfigError
from ...settings import settings
from .supervision import Limits, NotStartedError, ProcessResult, supervise


class ProcessLimits(Limits):
    """What a run may take before it is killed."""

    @classmethod
    def from_settings(cls) -> ProcessLimits:
        """The limits that the environment sets for compilers."""
        memory = settings().compiler_memory_gb
        return cls(settings().compiler_timeout_s, None if memory is None else memory << 30)


def run_process(
    command: Sequence[str],
    directory: Path,
    limits: ProcessLimits | None = None,
    cancel: threading.Event | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """See ``supervise``; raises ConfigError if the command cannot be started."""
    try:
        return supervise(command, directory, limits, cancel, environment)
    except NotStartedError as error:
        raise ConfigError(f"cannot start {error}") from error
