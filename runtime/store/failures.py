"""Compilers that refused, remembered for a while so that a fleet does not repeat what takes an hour to fail."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .key import SCHEMA, ArtifactKey
from .layout import StoreLayout, is_digest
from .owner import Owner
from .publish import replace_file

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


def forget_failure(layout: StoreLayout, digest: str) -> None:
    """Have the key tried again; raises OSError if the store cannot be written."""
    layout.failure(digest).unlink(missing_ok=True)


def _shorten(output: str) -> str:
    if len(output) <= _OUTPUT_CHARACTERS:
        return output
    half = _OUTPUT_CHARACTERS // 2
    return f"{output[:half]}\n... {len(output) - 2 * half} characters left out ...\n{output[-half:]}"
