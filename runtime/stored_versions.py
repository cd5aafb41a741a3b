"""Plans that differ from a wanted one in nothing but the version of the compiler that made their programs.

A machine that serves needs no compiler, and without one it cannot know which version the stored programs are of. Flags,
target, model and all else it knows, and those must be the wanted ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import StoreMissError
from .loader import PLAN, DecodeVariant
from .store.key import ArtifactKey
from .store.store import ArtifactStore


def variants_of_some_version(
    store: ArtifactStore, wanted: DecodeVariant, is_of_some_version: Callable[[str], bool]
) -> list[DecodeVariant]:
    """``wanted`` with the fingerprint of each stored plan that is otherwise its own, the youngest plan first.

    Args:
        wanted: with any fingerprint.
        is_of_some_version: whether a fingerprint differs from the wanted ones in nothing but the compiler's version.

    Raises:
        StoreMissError: there is no such plan; the message says in what the nearest one differs besides.
    """
    key, found, versions = wanted.plan_key, [], []
    for manifest in store.manifests(PLAN):
        fingerprint = manifest.parts.get("fingerprint")
        if isinstance(fingerprint, str) and is_of_some_version(fingerprint):
            versions.append(fingerprint)
            if manifest.digest == _with_fingerprint(key, fingerprint).digest:
                found.append(replace(wanted, fingerprint=fingerprint))
    if not found:
        # Explained as if that version were installed, so that what it differs in is what is missing.
        explained = store.explain(_with_fingerprint(key, versions[0]) if versions else key)
        raise StoreMissError(f"no stored plan has this key, whatever the compiler's version: {'; '.join(explained)}")
    return found


def _with_fingerprint(key: ArtifactKey, fingerprint: str) -> ArtifactKey:
    return ArtifactKey(key.kind, {**key.parts, "fingerprint": fingerprint}, key.texts)
