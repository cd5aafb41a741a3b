"""One thing that was looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "missing", "placeholder", "wrong version", "failed"]


@dataclass(frozen=True)
class Finding:
    """What came of looking for something.

    Attributes:
        name: of what was looked for.
        status: "placeholder" is a package of the right name without its code; "failed" is there, but does not work.
        found: version, place or what else there is to say.
        next_step: what to do, empty if nothing.
        needed: the host cannot work without it.
    """

    name: str
    status: Status
    found: str = ""
    next_step: str = ""
    needed: bool = False
