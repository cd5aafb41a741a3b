"""A target that runs programs on the host which are shaped and lowered for a Trainium 2."""

from __future__ import annotations

from dataclasses import replace

from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.lowering.options import LoweringOptions, Numerics
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.runtime.artifacts import Artifact


class HostInDeviceShape(HostTarget):
    """Passes and lowering see "trn2"; XLA's CPU compiler gets the result."""

    name = "trn2"

    def lowering_options(self, numerics: Numerics) -> LoweringOptions:
        return replace(super().lowering_options(numerics), int64=False, sort=False)

    def compile(self, module: LoweredModule) -> Artifact:
        return replace(super().compile(module), target=HostTarget.name)
