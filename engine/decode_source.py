"""A checkpoint's decode step: what decides its programs, its plan and the form of its weights.

Whoever compiles a step and whoever loads it ask here, so that they mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..errors import CompilerMissingError, StoreMissError
from ..model.checkpoint.loader import Checkpoint
from ..model.identity import model_identity, weights_identity
from ..model.kv_cache import CacheGeometry
from ..model.numerics import Numerics, engine_numerics, target_numerics
from ..reporting import Say
from ..runtime.devices.choice import default_target
from ..runtime.devices.nrt.runtime import TARGETS as NEURON_TARGETS
from ..runtime.devices.pjrt import PjrtDevice
from ..runtime.devices.pjrt_client import machine_fingerprint
from ..runtime.ladder import size_ladder
from ..runtime.loader import DecodeVariant, store_weights
from ..runtime.plan import DecodePlan
from ..runtime.runner import DecodeRunner
from ..runtime.store.store import ArtifactStore
from ..runtime.stored_versions import variants_of_some_version
from ..runtime.tensor_source import TensorSource
from ..settings import settings

if TYPE_CHECKING:
    from ..compiler.targets.neuron_fingerprint import NeuronFingerprint
    from ..model.decode import DecodeModel


@dataclass(frozen=True)
class DecodeOptions:
    """Which step of a checkpoint is meant.

    Attributes:
        batch_sizes: as in ``compile_decode``.
        max_context: tokens that one request may reach.
        max_requests: that are served at once; as many as the largest batch if left out.
        numerics, mode, target: as in ``compile_decode``.
    """

    batch_sizes: int | Sequence[int] = (1, 2, 4, 8)
    max_context: int = 1024
    max_requests: int | None = None
    numerics: str = "fast"
    mode: str | None = None
    target: str | None = None


class DecodeSource:
    """A checkpoint, and the step that is wanted of it.

    The model and the compiler are imported when they are needed: a start from a full store does without them.

    Raises:
        ConfigError: an unknown target.
        DeviceError: no target was named, and the device that the environment asks for is not there.
        InputError: no batch size, or one below 1.
    """

    def __init__(self, checkpoint: Checkpoint, options: DecodeOptions):
        self.checkpoint = checkpoint
        self.options = options
        self.sizes = size_ladder(options.batch_sizes)
        self.target = options.target or default_target()
        self.numerics = _numerics(self.target)
        self.geometry = CacheGeometry.for_requests(options.max_context, options.max_requests or self.sizes[-1])

    @cached_property
    def variant(self) -> DecodeVariant:
        """What the plan is stored under; raises CompilerMissingError if the target has no compiler here."""
        return self._variant(_fingerprint(self.target))

    def stored_variants(self, store: ArtifactStore) -> list[DecodeVariant]:
        """What a plan in ``store`` may be found under, the best first: only ``variant``, if there is a compiler here.

        A serving machine needs none. Without one, plans that another compiler's version made are as good, if all else
        is as it would be here, the compiler's flags included.

        Raises:
            StoreMissError: there is no compiler, and no such plan.
            ConfigError: there is a compiler that does not answer, or none where the environment says.
        """
        try:
            return [self.variant]
        except CompilerMissingError as missing:
            known = _neuron_fingerprint(self.target)
            wanted = self._variant(known.of_version("of some version"))
            try:
                return variants_of_some_version(store, wanted, known.is_of_some_version)
            except StoreMissError as miss:
                raise StoreMissError(f"{miss}; {missing}") from None

    @property
    def can_compile(self) -> bool:
        """Whether the target has a compiler here."""
        try:
            return bool(self.variant)
        except CompilerMissingError:
            return False

    def _variant(self, fingerprint: str) -> DecodeVariant:
        options = self.options
        return DecodeVariant(
            identity=model_identity(self.checkpoint.config, self.geometry, self.numerics),
            batch_sizes=self.sizes,
            target=self.target,
            fingerprint=fingerprint,
            numerics=options.numerics,
            mode=options.mode or settings().graph_mode,
        )

    @cached_property
    def model(self) -> DecodeModel:
        """The eager model."""
        from ..model.weights import load_model

        return load_model(self.checkpoint, self.geometry, self.numerics)

    @cached_property
    def weights(self) -> dict[str, Any]:
        """What tells the checkpoint's weights from any others."""
        return weights_identity(self.checkpoint)

    def compile(self, store: ArtifactStore | Literal[False], say: Say) -> DecodeRunner:
        """A runner that is compiled in this process; with a store, programs and plan are kept."""
        from ..compiler.api import compile_decode

        variant = self.variant
        return compile_decode(
            self.model,
            variant.batch_sizes,
            target=variant.target,
            numerics=variant.numerics,
            mode=variant.mode,
            progress=say,
            store=store,
            identity=variant.identity,
        )

    def tensors(self, plan: DecodePlan) -> TensorSource:
        """The weights from the checkpoint, brought into the form that the programs of ``plan`` take."""
        from ..runtime.weights import BoundTensors

        return BoundTensors(self.model, plan.tensor_names)

    def store_weights(self, store: ArtifactStore, plan: DecodePlan) -> None:
        """Store the weights in that form, unless they are."""
        store_weights(store, self.variant.weights_key(self.weights, plan), plan, self.tensors)


def _numerics(target: str) -> Numerics:
    if target == PjrtDevice.name:
        return engine_numerics()
    return target_numerics(target)


def _fingerprint(target: str) -> str:
    if target == PjrtDevice.name:
        return machine_fingerprint()
    if target in NEURON_TARGETS.values():
        return _neuron_fingerprint(target).of_installed(settings().compiler)
    from ..compiler.targets.table import find_target

    return find_target(target).fingerprint()


def _neuron_fingerprint(target: str) -> NeuronFingerprint:
    """What ``compiler.programs.plan_fingerprint`` goes by; without the lowering, unless kernels may replace bodies."""
    from ..compiler.targets.neuron_fingerprint import asked_fingerprint

    known = asked_fingerprint(target)
    if settings().nki == "off":
        return known
    from ..compiler.programs.plan_fingerprint import kernels_digest
    from ..compiler.targets.table import find_target

    return replace(known, kernels=kernels_digest(find_target(target)))
