"""``cache``: what is in the store of compiled programs."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from ..reporting import Table
from .console import clean_errors, conclude, print_table, refuse_ignored
from .options import JsonOption, StoreOption
from .vendor import vendor

if TYPE_CHECKING:
    from ..runtime.store.store import ArtifactStore

cache = typer.Typer(no_args_is_help=True, help="What was compiled before.")
cache.add_typer(vendor, name="vendor")

KindOption = Annotated[str | None, typer.Option(help="Only entries of this kind, such as program.")]
DAY_S = 24 * 3600.0


@cache.command("ls")
def cache_ls(store: StoreOption = None, kind: KindOption = None, json: JsonOption = None) -> None:
    """List entries, those used last first, and compilations that failed and are not tried again yet."""
    with clean_errors():
        opened = _open(store)
        now = time.time()
        records = [
            {
                "digest": manifest.digest,
                "kind": manifest.kind,
                "bytes": usage.size,
                "age_s": now - manifest.created,
                "unused_s": now - usage.last_used,
                "description": str(manifest.metadata.get("description", "")),
            }
            for manifest, usage in opened.entries(kind)
        ]
        failures = opened.failures()
        total = sum(record["bytes"] for record in records)
        rows = tuple(
            (
                record["digest"][:12],
                record["kind"],
                record["bytes"],
                round(record["age_s"] / 3600, 1),
                round(record["unused_s"] / 3600, 1),
                record["description"],
            )
            for record in records
        )
        title = f"{opened.local.root}: {len(records)} entries, {total:,} bytes, {len(failures)} failures"
        print_table(Table(title, ("digest", "kind", "bytes", "age h", "unused h", "what"), rows))
        for failure in failures:
            files = opened.failure_files(failure.digest)
            kept = f"; its graph and module are in {files}" if files else ""
            print(f"{failure.kind} {failure.digest[:12]} failed: {failure.signature}{kept}")
        listed = [asdict(failure) for failure in failures]
        write_report(json, {"store": str(opened.local.root), "entries": records, "failures": listed})
    found = f"{len(records)} entries and {len(failures)} failed compilations are kept"
    if failures:
        conclude(True, found, "deepinfer-neuron bisect of a failure's files, or cache clear --failures to try again")
    elif records:
        conclude(True, found, "deepinfer-neuron cache verify reads and checks them")
    else:
        conclude(True, found, "deepinfer-neuron compile DIRECTORY --store STORE fills a store")


@cache.command("explain")
def cache_explain(
    digest: Annotated[
        str | None, typer.Argument(help="The beginning of a digest; the newest entry if omitted.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Say why an entry had to be made: in what its key differs from that of the nearest other entry."""
    with clean_errors():
        from ..errors import ArtifactError

        opened = _open(store)
        entries = [manifest for manifest, _ in opened.entries()]
        if not entries:
            raise ArtifactError(f"the store in {opened.local.root} is empty: compile something with it first")
        chosen = digest or max(entries, key=lambda manifest: manifest.created).digest
        sentences = opened.explain_entry(chosen)
        print("\n".join([f"entry {chosen[:12]}", *sentences]))
        write_report(json, {"digest": chosen, "differences": sentences})
    conclude(True, f"entry {chosen[:12]} is explained", "deepinfer-neuron cache ls has the other entries")


@cache.command("verify")
def cache_verify(store: StoreOption = None, json: JsonOption = None) -> None:
    """Read and check every file of every entry; puts damaged entries aside and exits with 1 if there were any."""
    with clean_errors():
        opened = _open(store)
        count = len(opened.local.layout.digests())
        damaged = opened.verify()
        print(f"{opened.local.root}: {count} entries, {len(damaged)} damaged")
        for digest in damaged:
            print(digest)
        write_report(json, {"store": str(opened.local.root), "entries": count, "damaged": damaged})
    if damaged:
        conclude(False, f"{len(damaged)} of {count} entries were damaged and are put aside", "compile them again")
    else:
        conclude(True, f"all {count} entries are whole", "deepinfer-neuron cache export FILE.tar takes them elsewhere")


@cache.command("clear")
def cache_clear(
    context: typer.Context,
    store: StoreOption = None,
    kind: KindOption = None,
    unused_for: Annotated[float, typer.Option(metavar="DAYS", help="Only entries unused for so long.")] = 0.0,
    failures: Annotated[
        bool, typer.Option("--failures", help="Instead, have failed compilations tried again.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Remove entries, and what killed processes left behind."""
    if failures:
        refuse_ignored(context, ("kind", "unused_for"), "--failures forgets every failed compilation")
    with clean_errors():
        opened = _open(store)
        removed = opened.clear_failures() if failures else opened.clear(kind, unused_for * DAY_S)
        write_report(json, {"store": str(opened.local.root), "removed": removed})
    found = f"{len(removed)} {'failures' if failures else 'entries'} are removed from {opened.local.root}"
    conclude(True, found, "deepinfer-neuron cache ls has the rest")


@cache.command("export")
def cache_export(
    archive: Annotated[Path, typer.Argument(metavar="FILE.tar", help="The file to write.")],
    store: StoreOption = None,
    kind: KindOption = None,
    json: JsonOption = None,
) -> None:
    """Write entries to a plain tar file."""
    with clean_errors():
        exported = _open(store).export(archive, kind)
        write_report(json, {"file": str(archive), "entries": exported})
    there = f"deepinfer-neuron cache import {archive} on another machine"
    conclude(True, f"{len(exported)} entries are in {archive}", there)


@cache.command("import")
def cache_import(
    archive: Annotated[Path, typer.Argument(metavar="FILE.tar", help="A file that `cache export` wrote.")],
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Check the entries of a tar file and take them into the store."""
    with clean_errors():
        opened = _open(store)
        imported = opened.import_(archive)
        write_report(json, {"store": str(opened.local.root), "entries": imported})
    conclude(True, f"{len(imported)} entries are imported into {opened.local.root}", "deepinfer-neuron cache ls")


def _open(directory: Path | None) -> ArtifactStore:
    from ..runtime.store.default import open_store

    return open_store(directory)
