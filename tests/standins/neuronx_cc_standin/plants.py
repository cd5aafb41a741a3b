"""Failures that certain modules cause, chosen by the environment variable ``NEURONX_CC_STANDIN_PLANT``.

It holds a JSON list of plants. The first one that applies to the module decides; without one, the module is compiled::

    [{"when": {"all": [{"opcode": "gather", "line": "model/decode.py"},
                       {"opcode": "composite", "name": "deepinfer.route", "count": 2}],
               "in_order": true,
               "at_least": 200},
      "then": "error=IBIR297",
      "probability": 0.3}]

``when``: every pattern of ``all`` matches an operation of its own (``count`` of them), anywhere in the module, with
``in_order`` each one after those of the pattern before it; and the entry function has ``at_least`` so many operations.
Patterns name an ``opcode`` of StableHLO, the type of the first ``result`` (``tensor<4x128xbf16>``), the ``name`` of a
composite or the target of a custom call, a ``line`` of the model (``model/moe.py:80``, or the file alone), and with
``entry`` only operations of the entry function; what a pattern does not name may be anything.

``then``: ``error=CODE`` prints one of the texts in ``planted_errors.py`` and ends with 70; ``signal=NAME``, ``hang``,
``memory``, ``flood``, ``garbage``, ``silent``, ``killed`` and ``internal`` are those of ``faults.py``; ``swap=OPCODE``
and ``double`` compile the module to something else (``miscompile.py``).

``probability``: in this share of the runs. Every run of one module draws the next number from a generator of its own,
so that runs side by side draw what they would draw one after another; ``NEURONX_CC_STANDIN_COUNT`` begins the names of
the files that count the runs.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

_LINE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')


@dataclass(frozen=True)
class Pattern:
    """What an operation looks like; empty texts stand for anything."""

    opcode: str = ""
    result: str = ""
    name: str = ""
    line: str = ""
    entry: bool = False
    count: int = 1

    def matches(self, operation: Any) -> bool:
        """Whether an operation looks like this."""
        return (
            (not self.opcode or operation.name == f"stablehlo.{self.opcode}")
            and (not self.name or _name(operation) == self.name)
            and (not self.result or (len(operation.results) > 0 and str(operation.results[0].type) == self.result))
            and (not self.line or self.line in _lines(operation))
            and (not self.entry or _is_entry(operation.parent))
        )


@dataclass(frozen=True)
class Plant:
    """When the compiler fails, and how."""

    patterns: tuple[Pattern, ...]
    in_order: bool
    at_least: int
    way: str
    probability: float

    def find(self, module: ir.Module) -> list[Any] | None:
        """The operations that it takes, those of the last pattern last; None if the plant does not apply."""
        if self.at_least and _entry_size(module) < self.at_least:
            return None
        operations = _operations(module)
        found: list[int] = []
        for pattern in self.patterns:
            first = found[-1] + 1 if self.in_order and found else 0
            places = (
                place
                for place in range(first, len(operations))
                if place not in found and pattern.matches(operations[place])
            )
            chosen = [place for place, _ in zip(places, range(pattern.count), strict=False)]
            if len(chosen) < pattern.count:
                return None
            found += chosen
        return [operations[place] for place in found]


def read_plants(text: str) -> tuple[Plant, ...]:
    """The plants that a text describes; none for an empty one. Raises KeyError, TypeError or ValueError."""
    return tuple(_read_plant(**plant) for plant in json.loads(text or "[]"))


def find_plant(plants: Sequence[Plant], module: ir.Module, bytecode: bytes, counts: Path) -> tuple[str, str, list[Any]]:
    """Name and value of the way to fail, and the operations that cause it; an empty name for none.

    ``counts`` begins the names of the files that count the runs of modules with failures of a probability.
    """
    for plant in plants:
        found = plant.find(module)
        if found is not None and (plant.probability == 1 or _draw(bytecode, counts) < plant.probability):
            name, _, value = plant.way.partition("=")
            return name, value, found
    return "", "", []


def _read_plant(when: dict[str, Any], then: str, probability: float = 1.0) -> Plant:
    return Plant(
        patterns=tuple(Pattern(**pattern) for pattern in when.get("all", ())),
        in_order=when.get("in_order", False),
        at_least=when.get("at_least", 0),
        way=then,
        probability=probability,
    )


def _operations(module: ir.Module) -> list[Any]:
    found = []

    def note(operation: Any) -> Any:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def _entry_size(module: ir.Module) -> int:
    """Operations of the entry function, without those in regions and the one that returns."""
    return sum(len(one.body.blocks[0].operations) - 1 for one in module.body if _is_entry(one.operation))


def _is_entry(operation: Any) -> bool:
    return operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main"


def _name(operation: Any) -> str:
    attribute = {"stablehlo.composite": "name", "stablehlo.custom_call": "call_target_name"}.get(operation.name)
    return ir.StringAttr(operation.attributes[attribute]).value if attribute else ""


def _lines(operation: Any) -> tuple[str, ...]:
    match = _LINE.search(str(operation.location))
    return (match["file"], f"{match['file']}:{match['line']}") if match else ()


def _draw(bytecode: bytes, counts: Path) -> float:
    """The next number between 0 and 1 of the generator that belongs to a module."""
    digest = hashlib.sha256(bytecode).hexdigest()[:16]
    with Path(f"{counts}.{digest}").open("ab") as file:
        file.write(b".")
        run = file.tell()
    return random.Random(f"{digest} {run}").random()
