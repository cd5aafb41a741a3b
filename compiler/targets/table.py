"""The targets there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...errors import ConfigError
from .base import Target
from .flags import LOGICAL_CORE_SIZES
from .host import HostTarget
from .iree import iree_target
from .neuronx import neuron_target

TARGETS: Mapping[str, Callable[[], Target]] = {
    "host": HostTarget,
    "iree": iree_target,
    **{name: partial(neuron_target, name) for name in LOGICAL_CORE_SIZES},
}


def find_target(name: str) -> Target:
    """The target of that name; raises ConfigError listing the names there are."""
    if name not in TARGETS:
        raise ConfigError(f"unknown target {name!r}: expected one of {sorted(TARGETS)}")
    return TARGETS[name]()
