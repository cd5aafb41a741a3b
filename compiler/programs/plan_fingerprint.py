"""What a stored plan depends on besides the model: the target, and the kernels that its programs may have."""

from __future__ import annotations

import hashlib
import json

from ..lowering.device_kernels.replacement import Replacements
from ..targets.base import Target
from ..targets.neuron_fingerprint import with_kernels
from .kernel_sources import kernel_sources


def plan_fingerprint(target: Target) -> str:
    """The target's fingerprint, with a digest of every kernel that it may use.

    A plan names programs, so it has to be found no more once one of them would be another. A program's own key names
    only the kernels that are in it.

    Raises:
        ArtifactError: a kernel is not determined by its sources.
        ConfigError: the target has no compiler here.
    """
    return with_kernels(target.fingerprint(), kernels_digest(target))


def kernels_digest(target: Target) -> str:
    """A digest of every kernel that the target may use, empty if there is none; no compiler is needed.

    Raises:
        ArtifactError: a kernel is not determined by its sources.
    """
    usable = Replacements(target.lowering_options("fast")).usable
    if not usable:
        return ""
    sources = {kernel.name: kernel_sources(kernel) for kernel in usable}
    return hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
