"""Files of HTML, SVG and CSS with places for values, which are safe to write whatever they hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_PACKAGE = Path(__file__).parents[2]
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 (section 2.2) has no place for."""


def render(template: str, **values: object) -> Markup:
    """The text of a template whose path is relative to the package, such as ``explain/steps.html.jinja``.

    Strings in ``values`` are escaped unless they are ``Markup``, with U+FFFD for characters that XML does not have.
    """
    return Markup(_ENVIRONMENT.get_template(template).render(values))


def _without_odd_characters(value: Any) -> Any:
    return value if isinstance(value, Markup) else _NO_CHARACTER.sub("\ufffd", str(value))


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_PACKAGE),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_without_odd_characters,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
