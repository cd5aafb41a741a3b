"""Taking programs over from the vendor's cache into our store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ..errors import ArtifactError
from .neff.descriptor import TARGET_NAMES
from .neff.reader import Neff, read_neff
from .store.key import ArtifactKey
from .store.store import ArtifactStore
from .vendor_cache import State, VendorModule

VENDOR_PROGRAM = "neff"
NEFF_FILE = "program.neff"
MODULE = "module.hlo"

ImportOutcome = Literal["imported", "present", "refused", "skipped"]

_FAMILIES = {"inf2": "trn1", "trn1n": "trn1"} | {target: target for target in TARGET_NAMES}
"""Targets of the compiler by the cores they have."""

_SKIPPED: dict[State, str] = {
    "failed": "compilation failed or was interrupted; the vendor's tools repeat it with --retry_failed_compilation",
    "active": "still being compiled",
    "stale": "given up before it was finished",
    "empty": "nothing was compiled",
}


@dataclass(frozen=True)
class ImportedModule:
    """What became of one compilation.

    Attributes:
        module: where it was found.
        outcome: ``imported``; ``present``: the store had it; ``refused``: the program is damaged, or not what its
            flags say, or could not be stored; ``skipped``: there is no finished program.
        digest: of the key in the store, for ``imported`` and ``present``.
        reason: why it was refused or skipped.
    """

    module: VendorModule
    outcome: ImportOutcome
    digest: str = ""
    reason: str = ""


def vendor_key(module: VendorModule) -> ArtifactKey:
    """What a program of the vendor's cache is stored under: compiler version, module hash, flags and their hash."""
    flags = None if module.flags is None else list(module.flags)
    return ArtifactKey(
        VENDOR_PROGRAM,
        {
            "compiler": module.compiler_version,
            "module": module.module_hash,
            "flags": flags,
            "flags_hash": module.flags_hash,
        },
    )


def import_modules(modules: Iterable[VendorModule], store: ArtifactStore) -> Iterator[ImportedModule]:
    """Check each finished program and store it; failed and unfinished ones are reported and stored as nothing.

    The vendor's cache is only read. An entry has the files ``program.neff`` and, if it was kept, ``module.hlo``; its
    metadata says ``target``, ``logical_core_size`` and the name the module's file had.
    """
    for module in modules:
        yield _import(module, store)


def _import(module: VendorModule, store: ArtifactStore) -> ImportedModule:
    reason = _SKIPPED.get(module.state)
    if reason or module.neff is None:
        return ImportedModule(module, "skipped", reason=reason or "the program is missing")
    key = vendor_key(module)
    if store.get(key) is not None:
        return ImportedModule(module, "present", digest=key.digest)
    try:
        # The bytes that were checked are those that are stored, whatever happens to the file meanwhile.
        program = module.neff.read_bytes()
        neff = _check(module, program)
        files = {NEFF_FILE: program} | ({MODULE: module.hlo.read_bytes()} if module.hlo else {})
    except (ArtifactError, FileNotFoundError) as error:
        return ImportedModule(module, "refused", reason=str(error))
    entry = store.put(key, files, _metadata(module, neff))
    if entry.directory is None:
        return ImportedModule(module, "refused", reason="the store could not keep it; see its warning")
    return ImportedModule(module, "imported", digest=key.digest)


def _check(module: VendorModule, program: bytes) -> Neff:
    """Read a program, which must be for the target and logical core that the compiler was told."""
    flags = dict(_flag_values(module.flags or ()))
    cores = next((flags[name] for name in ("--lnc", "-lnc", "--logical-nc-config") if name in flags), "")
    try:
        return read_neff(
            program,
            target=_FAMILIES.get(flags.get("--target", "")),
            logical_core_size=int(cores) if cores.isdecimal() else None,
        )
    except ArtifactError as error:
        raise ArtifactError(f"{module.neff}: {error}") from error


def _flag_values(flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for flag, following in pairwise([*flags, ""]):
        name, equals, value = flag.partition("=")
        yield name, value if equals else following


def _metadata(module: VendorModule, neff: Neff) -> dict[str, object]:
    return {
        "target": neff.target,
        "logical_core_size": neff.header.logical_core_size,
        "module_file": module.hlo.name if module.hlo else None,
    }
