"""One question to a compiler and its device: does the program of this candidate compute what it should?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor, fx

from ...compiler.targets.command import CompilerCommand
from ...compiler.targets.flags import LOGICAL_CORE_SIZES
from ...compiler.targets.process import ProcessLimits, ProcessResult
from ...compiler.targets.working_directory import working_directory
from ...errors import ConfigError, LoweringError
from ...passes.context import results
from ...runtime.artifacts import TensorType
from ..probes.failure_signature import signature_of
from ..probes.probe import CompileProbe, invalid, shorten
from ..probes.verdict import Signature, Verdict
from ..subjects.render import render
from ..subjects.subject import Candidate
from ..subjects.values import Value, inputs_of
from .drawn_values import draw_inputs
from .execution import Run, ValueFiles, execute
from .expectation import Expectation, expect

DIFFERENT = Signature("different")
"""The failure of a program that computes something else; the log of its verdict says where."""

WHILE_RUNNING = "while it ran"
"""Begins the message of failures of the program, not of the compiler."""


Execute = Callable[[Run, ValueFiles, Path, ProcessLimits, threading.Event], tuple[ProcessResult, list[Tensor]]]
"""See ``execution.execute``."""


@dataclass(frozen=True)
class AccuracyProbe:
    """Compiles candidates, runs the programs on what the graph is fed, and compares with eager PyTorch.

    What a candidate is fed are the values that its placeholders have (see ``values``), or else drawn ones. Compiler and
    program have a process each, of which nothing stays. See ``expectation`` for what is compared and how. Can be called
    from several threads at once; of programs for Neuron cores, one runs at a time.

    Attributes:
        compiler: of a target that has a device here.
        limits: of one compilation, and of one run.
        files: where values are kept for the programs.
        execute: runs a program.
    """

    compiler: CompilerCommand
    limits: ProcessLimits
    files: ValueFiles
    execute: Execute = execute
    _core: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        """Compile and run a candidate once.

        ``invalid`` are candidates that eager PyTorch does not run, or that have no form that the compiler reads.

        Raises:
            CompileCancelledError: ``cancel`` was set, by whichever thread.
            ConfigError: the compiler cannot be started, or the candidate was not made from a graph.
            DeviceError: there is no device.
        """
        start = time.monotonic()
        found, log = self._look(candidate, cancel)
        return Verdict(found, time.monotonic() - start, shorten(log))

    def _look(self, candidate: Candidate, cancel: threading.Event) -> tuple[Signature | None, str]:
        graph = reference_graph(candidate)
        try:
            content = render(candidate, self.compiler.format)
        except LoweringError as error:
            return invalid(error), str(error)
        with working_directory() as directory:
            found, log = CompileProbe(self.compiler, self.limits).compile_in(directory, content, cancel)
            if found is not None:
                return found, log
            try:
                inputs, expectation = prepare_run(graph)
            except Exception as error:
                # Eager PyTorch raises what it likes, and says nothing about the compiler with it.
                return invalid(error), str(error)
            run = Run(
                target=self.compiler.name,
                payload=directory / self.compiler.output_name,
                inputs=inputs,
                outputs=output_types(graph),
                aliases=candidate.aliases,
                runtime_zero=candidate.runtime_zero,
                fingerprint=self.compiler.fingerprint,
            )
            place = directory / "run"
            place.mkdir()
            with self._device():
                ended, actual = self.execute(run, self.files, place, self.limits, cancel)
        found = signature_of(ended, ended.output)
        if found is not None:
            words = [WHILE_RUNNING, *filter(None, [found.message])]
            return replace(found, message=": ".join(words)), ended.output
        lines = expectation.differences(actual)
        return (DIFFERENT if lines else None), "\n".join(lines)

    def _device(self) -> AbstractContextManager[object]:
        """A core belongs to one process at a time."""
        return self._core if self.compiler.name in LOGICAL_CORE_SIZES else nullcontext()


def reference_graph(candidate: Candidate) -> fx.GraphModule:
    """The graph that says what a candidate should compute; raises ConfigError if there is none."""
    if candidate.graph is None:
        raise ConfigError("what a StableHLO module should compute is not known: give the graph, or --model")
    return candidate.graph


def prepare_run(graph: fx.GraphModule) -> tuple[list[Value], Expectation]:
    """What a graph is fed, and what it should return; raises whatever eager PyTorch raises."""
    inputs = inputs_of(graph)
    if inputs is None:
        inputs = [Value(tensor) for tensor in draw_inputs(graph)]
    return inputs, expect(graph, [_row_major(one.tensor) for one in inputs])


def output_types(graph: fx.GraphModule) -> list[TensorType]:
    """Types of what a graph returns."""
    return [TensorType(node.meta["val"].dtype, tuple(node.meta["val"].shape)) for node in results(graph)]


def _row_major(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous()
