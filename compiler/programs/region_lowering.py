"""Regions to modules for one target, and the keys of the programs that it makes of them."""

from __future__ import annotations

from ...runtime.store.key import ArtifactKey
from ..lowering.decompose import Decompositions
from ..lowering.device_kernels.replacement import Replacements
from ..lowering.lower import LoweredModule, lower_graph
from ..lowering.options import Numerics
from ..regions.cut import Region
from ..targets.base import Target
from .program_key import program_key


class RegionLowering:
    """Lowers the regions of a model; each operator signature is traced once. For one thread: FX traces in one."""

    def __init__(self, target: Target, numerics: Numerics):
        self.target = target
        self.numerics: Numerics = numerics
        self._options = target.lowering_options(numerics)
        self._decompositions = Decompositions(self._options)
        self._replacements = Replacements(self._options)

    def key(self, region: Region) -> ArtifactKey:
        """The key of the region's program; raises ArtifactError if no key is sure to be right."""
        return program_key(region, self.target, self._options, self._decompositions, self._replacements)

    def lower(self, region: Region) -> LoweredModule:
        """The module of a region; raises LoweringError for an operator without a lowering."""
        return lower_graph(region.module, self._options, region.aliases, self._decompositions, self._replacements)
