"""One text for equal JSON values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ...errors import ArtifactError


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and ASCII only; tuples count as lists.

    Raises:
        ArtifactError: a value has no exact JSON form: NaN, an infinity, a key that is no string, any other object.
    """
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """``value`` made of dicts, lists, strings, numbers, booleans and None; raises ArtifactError as above."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ArtifactError(f"{sorted(map(repr, value))}: names in a key or in metadata are strings")
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value)):
        return value
    raise ArtifactError(
        f"{value!r} ({type(value).__name__}): keys and metadata are made of finite numbers, strings, booleans, None, "
        "lists and mappings"
    )
