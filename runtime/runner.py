"""Replay compiled decode steps: the CudaGraphRunner contract.

One program, or one list of regions, per batch size. A step picks the smallest size that holds the live batch, copies
the inputs into static buffers, resets the padded rows, executes, and returns the live rows of the outputs.
Weights, KV caches and static buffers are bound to the programs once, so a step runs no model code.
"""

from __future__ import annotations

import threading
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import DeviceError, InputError
from .devices.base import Buffer, Device, Executable
from .mirror import Mirror
from .plan import DecodePlan, InputBinding, ReplayPlan
from .program import BoundStep, BufferKey, buffer_key
from .slots import SlotBuffers
from .stats import CompileReport, RunnerStatistics
from .tensor_source import TensorSource

ABOVE_MAXIMUM = "batch above the largest compiled size"
NOTHING_COMPILED = "nothing is compiled"


class DecodeRunner:
    """Runs a decode step for any live batch up to the largest compiled size.

    Results are rows of memory that the next step may overwrite: clone what is kept longer. KV caches are
    updated in place. On a device that shares the host's memory they are the model's own tensors, so eager code and
    replays see each other's writes; on another they are the device's, and ``read_caches`` and ``write_caches`` copy
    them. A runner belongs to the thread that made it.

    Args:
        plan: slots and replay plans.
        executables: programs by the digest that the plan calls them, loaded on ``device``.
        tensors: every tensor that the plan names.
        device: where the programs run.
        fallback: called with the inputs when the batch is above the largest compiled size; None refuses such batches.
        reports: how the programs were compiled, if they were compiled here.
    """

    def __init__(
        self,
        plan: DecodePlan,
        executables: Mapping[str, Executable],
        tensors: TensorSource,
        device: Device,
        fallback: Callable[..., Any] | None = None,
        reports: Sequence[CompileReport] = (),
    ):
        replays = sorted(plan.replays, key=lambda replay: replay.batch_size)
        self.plan = plan
        self.executables = dict(executables)
        self.batch_sizes = tuple(replay.batch_size for replay in replays)
        self.maximum = max(self.batch_sizes, default=0)
        self.reports = tuple(reports)
        self.statistics = RunnerStatistics()
        self._fallback = fallback
        self._device = device
        self._thread = threading.get_ident()
        carriers = {one.name: one.carrier for replay in replays for one in replay.bindings if one.kind == "slot"}
        self._slots = SlotBuffers(plan.slots, max(self.maximum, 1), carriers)
        bindings = [binding for replay in replays for binding in replay.bindings if binding.kind != "slot"]
        self._tensors = tensors
        self._weights = self._bind_weights(bindings)
        self._root_bindings = {buffer_key(binding): binding for binding in bindings if binding.kind == "kv"}
        self._roots, caches = self._bind_roots()
        self._mirror = Mirror(device, self._weights.values(), caches) if device.has_own_memory else None
        self._programs = [self._bind_step(replay) for replay in replays]

    def can_run(self, inputs: Mapping[str, Any]) -> bool:
        """Whether a program takes these inputs: declared slots, dtypes and shapes, and a batch that fits."""
        try:
            live = self._slots.live_rows(inputs)
            self._slots.check(inputs, live)
        except InputError:
            return False
        return live <= self.maximum

    def __call__(self, **inputs: Tensor) -> Any:
        """Run one step on ``[live, *row_shape]`` inputs; returns what the model returns, ``live`` rows of it.

        Raises:
            InputError: inputs are not the declared slots, or a bound tensor was re-allocated.
            DeviceError: called from another thread than the runner's own, or the device failed.
        """
        self._check_thread()
        live = self._slots.live_rows(inputs)
        self._slots.check(inputs, live)
        if live > self.maximum:
            return self._fall_back(inputs, live)
        self._tensors.check_unmoved()
        self._tensors.refresh_copies()
        program = self._programs[bisect_left(self.batch_sizes, live)]
        self._slots.load(inputs, live, program.size)
        outputs = self._execute(program)
        self.statistics.count_replay(program.size, live)
        return program.result(outputs, live)

    def warm_up(self) -> None:
        """Execute every program once on padding only, largest first: it touches only what padded rows may touch."""
        for program in reversed(self._programs):
            self._slots.reset(0, program.size)
            self._execute(program)

    def read_caches(self) -> None:
        """Bring the model's cache tensors up to date with those that programs update.

        Raises:
            DeviceError: called from another thread than the runner's own, or the device failed.
        """
        self._check_thread()
        if self._mirror is not None:
            self._mirror.read_caches()

    def write_caches(self) -> None:
        """Bring the caches that programs update up to date with the model's tensors; see ``read_caches``."""
        self._check_thread()
        if self._mirror is not None:
            self._mirror.write_caches()

    def _execute(self, program: BoundStep) -> list[Buffer]:
        if self._mirror is not None:
            self._mirror.push(program.slots)
            return program.execute(self._roots)
        try:
            return program.execute(self._roots)
        except BaseException:
            # A failed or interrupted step may have consumed root buffers whose memory is still the model's.
            self._roots, _ = self._bind_roots()
            raise

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise DeviceError(
                "a decode runner was called from another thread than the one that made it: make one per thread"
            )

    def _fall_back(self, inputs: Mapping[str, Tensor], live: int) -> Any:
        if self._fallback is None:
            raise InputError(
                f"a decode step with {live} rows: the largest compiled size is {self.maximum} and the runner has no "
                "eager model to fall back to; compile a larger batch size, or split the batch"
            )
        if self._mirror is not None and self._programs:
            raise InputError(
                f"a decode step with {live} rows: the largest compiled size is {self.maximum} and the caches are in "
                "the device's memory, where the eager model does not see them; compile a larger batch size, or split "
                "the batch"
            )
        reason = ABOVE_MAXIMUM if self._programs else NOTHING_COMPILED
        if reason not in self.statistics.fallbacks:
            warnings.warn(
                f"decode step with {live} rows runs in eager PyTorch: {reason} ({self.maximum}); "
                "further ones are only counted, in statistics.fallbacks",
                RuntimeWarning,
                stacklevel=3,
            )
        self.statistics.fallbacks[reason] += 1
        with torch.no_grad():
            return self._fallback(**inputs)

    def _bind_weights(self, bindings: Sequence[InputBinding]) -> dict[BufferKey, Buffer]:
        weights = {buffer_key(one): one for one in bindings if one.kind == "weight"}
        return {
            key: self._device.buffer(self._tensors.carried(one.name, one.carrier, one.layout))
            for key, one in weights.items()
        }

    def _bind_roots(self) -> tuple[list[Buffer], dict[str, Buffer]]:
        """What programs take of the caches, and the whole caches by name."""
        bindings = self._root_bindings.values()
        roots = {one.name: self._tensors.carried(one.name, one.carrier) for one in bindings}
        caches = {name: self._device.buffer(root, donatable=True) for name, root in roots.items()}
        taken = [
            caches[one.name] if one.rows is None else self._device.rows(caches[one.name], *one.rows) for one in bindings
        ]
        return taken, caches

    def _bind_step(self, replay: ReplayPlan) -> BoundStep:
        slots = {
            BufferKey("slot", spec.name, carrier=self._slots.carrier(spec.name)): self._device.buffer(
                self._slots.view(spec.name, replay.batch_size)
            )
            for spec in self._slots.specs
        }
        return BoundStep(replay, self.executables, self._device, {**self._weights, **slots}, list(self._root_bindings))
