"""How the pictures of a report are painted, on light pages and on dark ones."""

from __future__ import annotations

_FONT = "font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace;"
_COMMON = "polyline { fill: none; stroke-linejoin: round; }"

_LIGHT = {
    "graph": """
        .operation { fill: #ffd8a8; stroke: #d9730d; } .given { fill: #eee; stroke: #888; }
        .returned { stroke-width: 2.5; } .value { stroke: #57606a; } .head { fill: #57606a; }
        .name { font-weight: bold; }""",
    "program": """
        .cell { fill: #d3dce6; } .result { fill: #b8ecec; } .kept { fill: #e03131; }
        .reads { stroke: #e03131; } .next { stroke: #e03131; stroke-dasharray: 3 3; }""",
    "history": """
        .failed { fill: #e03131; stroke: #e03131; } .passed { fill: #fff; stroke: #2f6fd6; }
        .best { stroke: #e03131; } .axis { stroke: #57606a; } .grid { stroke: #8884; }""",
}
_DARK = {
    "graph": """
        .operation { fill: #7a4208; } .given { fill: #333; }
        .value { stroke: #a5afba; } .head { fill: #a5afba; }""",
    "program": """
        .cell { fill: #30363d; } .result { fill: #0d5c62; } .kept { fill: #ff6b6b; }
        .reads { stroke: #ff6b6b; } .next { stroke: #ff6b6b; }""",
    "history": """
        .failed { fill: #ff6b6b; stroke: #ff6b6b; } .passed { fill: #0d1117; stroke: #79a8f0; }
        .best { stroke: #ff6b6b; } .axis { stroke: #a5afba; }""",
}


def _rules(name: str, text: str) -> str:
    """Rules for one picture alone: pages hold several."""
    rules = [rule.strip() for rule in text.split("}") if rule.strip()]
    return "\n".join(f"svg.{name} {rule} }}" for rule in rules)


def _style(name: str) -> str:
    light = f"svg.{name} {{ background: #fff; {_FONT} }}\n{_rules(name, f'text {{ fill: #1b1f24; }} {_COMMON}')}"
    dark = f"svg.{name} {{ background: #0d1117; }}\n{_rules(name, f'text {{ fill: #f0f3f6; }} {_DARK[name]}')}"
    return f"{light}\n{_rules(name, _LIGHT[name])}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


PICTURE_STYLE = {name: _style(name) for name in _LIGHT}
"""The style of each picture by the name of its class."""
