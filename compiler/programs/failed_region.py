"""Keep what is needed to look into a compilation that failed, and say how to."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from ...errors import ArtifactError, GraphError, LoweringError
from ...runtime.store.failures import Failure
from ...runtime.store.key import ArtifactKey
from ...runtime.store.store import ArtifactStore
from ..graphs.graph_file import SavedGraph
from ..regions.cut import Region
from .failure_bundle import Bundle, bundle_files
from .region_lowering import RegionLowering

_NO_STORE = (
    "\n  next: give a store (--store or DEEPINFER_NEURON_CACHE) and compile again: it keeps what `deepinfer-neuron "
    "bisect` takes"
)


def next_command(
    store: ArtifactStore | None,
    key: ArtifactKey | None,
    lowering: RegionLowering,
    region: Region,
    batch_size: int | None,
    module: Callable[[], bytes],
) -> str:
    """The end of the message of a compile error: a line with the command that finds the operators that cause it.

    Leaves a bundle with the failure that the store remembers, unless one is there. Empty if it remembers none, as when
    the compiler was killed from outside or the store cannot be written.

    Args:
        module: the region as StableHLO bytecode; asked for when a bundle is written.
    """
    if store is None or key is None:
        return _NO_STORE
    failure = store.failure(key.digest)
    if failure is None:
        return ""
    directory = store.failure_files(failure.digest)
    if directory is None:
        try:
            bundle = _bundle(failure, lowering, region, batch_size, module())
            directory = store.keep_failure_files(failure.digest, bundle_files(bundle))
        except (ArtifactError, GraphError, LoweringError) as error:
            return f"\n  nothing was kept for `deepinfer-neuron bisect`: {error}"
    return f"\n  next: deepinfer-neuron bisect {shlex.quote(str(directory))}" if directory else ""


def _bundle(
    failure: Failure, lowering: RegionLowering, region: Region, batch_size: int | None, module: bytes
) -> Bundle:
    target = lowering.target
    graph = SavedGraph(
        module=region.module,
        aliases=region.aliases,
        target=target.name,
        stage_names=region.stage_names,
        numerics=lowering.numerics,
        name=region.name,
    )
    return Bundle(graph, module, batch_size, target.fingerprint(), failure.signature, failure.log, failure.output)
