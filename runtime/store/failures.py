"""Compilers that refused, remembered for a while so that a fleet does not repeat what takes an hour to fail."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .key import SCHEMA, ArtifactKey
from .layout import StoreLayout, is_digest
from .manifest import check_name
from .owner import Owner
from .publish import new_stage, publish, replace_file, write_file

_OUTPUT_CHARACTERS = 4 << 20

logger = logging.getLogger("deepinfer_neuron.store")


@dataclass(frozen=True)
class Failure:
    """One refusal.

    Attributes:
        digest: of the key that could not be made.
        kind: of the key.
        signature: first line of the message, for telling causes apart.
        log: the error's message.
        where: process and host that saw it.
        failed: seconds since 1970.
        expires: seconds since 1970 after which it is tried again.
        output: everything that a compiler in a process of its own said; of a very long one, both ends.
    """

    digest: str
    kind: str
    signature: str
    log: str
    where: str
    failed: float
    expires: float
    output: str = ""

    def is_current(self, now: float) -> bool:
        """Whether it still stands. A failure of the future was written before the clock was set back: it does not."""
        return self.failed <= now < self.expires


def record_failure(layout: StoreLayout, key: ArtifactKey, error: BaseException, lifetime_s: float) -> None:
    """Remember that ``error`` came out of making ``key``; raises OSError if the store cannot be written."""
    log = str(error)
    signature = f"{type(error).__name__}: {log.partition(chr(10))[0]}"
    now = time.time()
    where = str(Owner.this_process())
    output = _shorten(getattr(error, "log", ""))
    failure = Failure(key.digest, key.kind, signature, log, where, now, now + lifetime_s, output)
    content = json.dumps({"schema": SCHEMA} | asdict(failure), indent=1)
    _remove_files(layout, key.digest)
    replace_file(layout.failure(key.digest), f"{content}\n".encode(), layout)


def current_failure(layout: StoreLayout, digest: str) -> Failure | None:
    """The failure of that key that still stands."""
    try:
        content: Mapping[str, Any] = json.loads(layout.failure(digest).read_bytes())
        if content["schema"] != SCHEMA or content["digest"] != digest:
            return None
        failure = Failure(**{name: value for name, value in content.items() if name != "schema"})
        return failure if failure.is_current(time.time()) else None
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        logger.warning("the record of a failure of %s cannot be read and is ignored: %s", digest, error)
        return None


def failures(layout: StoreLayout) -> list[Failure]:
    """All failures that still stand."""
    digests = sorted(path.stem for path in layout.failures.glob("*.json") if is_digest(path.stem))
    return [failure for digest in digests if (failure := current_failure(layout, digest))]


def keep_failure_files(layout: StoreLayout, digest: str, files: Mapping[str, bytes]) -> Path | None:
    """Put files beside the record of a failure, all of them or none; they go when the record goes.

    Returns:
        Their directory, with those that were there before if there were any; None if there is no record.

    Raises:
        ArtifactError: a file has an unsafe name.
        OSError: the store cannot be written.
    """
    if current_failure(layout, digest) is None:
        return None
    with new_stage(layout) as stage:
        for name, content in files.items():
            check_name(name)
            write_file(stage / name, content)
        publish(stage, layout.failure_files(digest))
    return layout.failure_files(digest)


def failure_files(layout: StoreLayout, digest: str) -> Path | None:
    """The directory of the files beside the record of a failure that still stands; None if there are none."""
    directory = layout.failure_files(digest)
    return directory if directory.is_dir() and current_failure(layout, digest) is not None else None


def forget_failure(layout: StoreLayout, digest: str) -> None:
    """Have the key tried again; raises OSError if the store cannot be written."""
    layout.failure(digest).unlink(missing_ok=True)
    _remove_files(layout, digest)


def sweep_failures(layout: StoreLayout) -> None:
    """Remove records that have expired, and files without a record."""
    for digest in {path.stem for path in layout.failures.glob("*") if is_digest(path.stem)}:
        with suppress(OSError):
            if _has_expired(layout, digest):
                forget_failure(layout, digest)


def _has_expired(layout: StoreLayout, digest: str) -> bool:
    """Whether there is no record, or one that says so; one of another version may be of use to that version."""
    try:
        return json.loads(layout.failure(digest).read_bytes())["expires"] <= time.time()
    except FileNotFoundError:
        return True
    except (KeyError, TypeError, ValueError):
        return False


def _remove_files(layout: StoreLayout, digest: str) -> None:
    grave = layout.new_stage()
    try:
        layout.failure_files(digest).rename(grave)
    except FileNotFoundError:
        return
    shutil.rmtree(grave, ignore_errors=True)


def _shorten(output: str) -> str:
    if len(output) <= _OUTPUT_CHARACTERS:
        return output
    half = _OUTPUT_CHARACTERS // 2
    return f"{output[:half]}\n... {len(output) - 2 * half} characters left out ...\n{output[-half:]}"
