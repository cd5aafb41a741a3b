"""``cache vendor``: the cache of the vendor's own tools, listed and imported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from ..reporting import Table
from .console import clean_errors, conclude, print_table, progress_bar
from .options import JsonOption

if TYPE_CHECKING:
    from ..runtime.vendor_cache import VendorModule

vendor = typer.Typer(no_args_is_help=True, help="The cache of torch-neuronx and neuronx-cc, which is only read.")

Root = Annotated[
    Path | None,
    typer.Argument(
        metavar="[ROOT]", help="The directory with neuronxcc-*; NEURON_CC_FLAGS' or the default if omitted."
    ),
]


@vendor.command("ls")
def vendor_ls(root: Root = None, json: JsonOption = None) -> None:
    """List compilations: success, failed, active, stale or empty, with the end of the log of failed ones."""
    with clean_errors():
        place, modules = _find(root)
        states = Counter(module.state for module in modules)
        rows = tuple(
            (
                module.compiler_version,
                module.module_hash,
                module.flags_hash,
                module.state,
                module.neff_bytes,
                int(module.age_s),
            )
            for module in modules
        )
        columns = ("compiler", "module", "flags", "state", "bytes", "age s")
        print_table(Table(f"{place}: {_counts(states)}", columns, rows))
        for module in modules:
            if module.state == "failed":
                print(f"\n{module.directory.name} failed:\n{module.log_tail}")
        write_report(json, {"root": str(place), "states": states, "modules": [_record(module) for module in modules]})
    finished = states["success"]
    found = f"{len(modules)} compilations of the vendor's tools are in {place}, {finished} of them finished"
    copy = "deepinfer-neuron cache vendor import --store DIRECTORY copies the finished ones"
    conclude(True, found, copy if finished else "compile with the vendor's tools, or name another ROOT")


@vendor.command("import")
def vendor_import(
    store: Annotated[Path, typer.Option(metavar="DIRECTORY", help="The store to import into.")],
    root: Root = None,
    json: JsonOption = None,
) -> None:
    """Check every finished program and copy it into a store; exits with 1 if one is damaged."""
    with clean_errors():
        from ..runtime.store.store import ArtifactStore
        from ..runtime.vendor_import import import_modules

        place, modules = _find(root)
        imported = []
        with progress_bar("importing programs") as progress:
            for result in import_modules(modules, ArtifactStore(store)):
                imported.append(result)
                progress(len(imported), len(modules))
        outcomes = Counter(result.outcome for result in imported)
        rows = tuple(
            (result.module.module_hash, result.module.flags_hash, result.outcome, result.digest or result.reason)
            for result in imported
        )
        columns = ("module", "flags", "outcome", "entry or reason")
        print_table(Table(f"{place} into {store}: {_counts(outcomes)}", columns, rows))
        records = [
            _record(result.module) | {"outcome": result.outcome, "digest": result.digest, "reason": result.reason}
            for result in imported
        ]
        write_report(json, {"root": str(place), "store": str(store), "outcomes": outcomes, "modules": records})
    stored = outcomes["imported"] + outcomes["present"]
    found = f"{stored} of {len(imported)} compilations are in {store}"
    if outcomes["refused"]:
        conclude(False, f"{found}, {outcomes['refused']} are damaged", "compile the refused ones again")
    else:
        conclude(True, found, f"deepinfer-neuron cache ls --store {store}")


def _find(root: Path | None) -> tuple[Path, tuple[VendorModule, ...]]:
    from ..runtime.vendor_cache import cache_root, find_modules
    from ..settings import settings

    place = root or cache_root(settings().compile_cache_url, settings().compiler_flags)
    return place, find_modules(place)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "no compilations"


def _record(module: VendorModule) -> dict[str, object]:
    return {
        "directory": str(module.directory),
        "compiler": module.compiler_version,
        "module": module.module_hash,
        "flags_hash": module.flags_hash,
        "flags": None if module.flags is None else list(module.flags),
        "state": module.state,
        "bytes": module.neff_bytes,
        "age_s": module.age_s,
        "log_tail": module.log_tail,
    }
