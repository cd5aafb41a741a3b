"""What the stand-in compiler with plants says of a module, without a process for it."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.targets.diagnostics import find_cause, normalise_message, parse_diagnostics
from jaxlib.mlir import ir
from neuron_compilers import STANDIN


def standin_part(name: str) -> ModuleType:
    """A module of the stand-in that needs no other one of it."""
    spec = importlib.util.spec_from_file_location(f"neuronx_cc_standin_{name}", STANDIN / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while they are made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class PlantedCompiler:
    """A probe: gives the verdicts that runs of the stand-in with these plants would end with.

    ``directory`` is where runs are counted. A module that is compiled to something else counts as computing something
    else; ``MiscompileProbe`` runs both to see.

    Attributes:
        runs: how often it was asked.
    """

    def __init__(self, plants: Sequence[dict[str, Any]], directory: Path):
        self.runs = 0
        self._parts = {name: standin_part(name) for name in ("plants", "planted_errors", "miscompile")}
        self._plants = self._parts["plants"].read_plants(json.dumps(list(plants)))
        self._counts = directory / "runs"

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        self.runs += 1
        with shared_context():
            name, value, planted = self._find(ir.Module.parse(candidate.module), candidate.module)
            text = self._parts["planted_errors"].error_text(value, planted, candidate.module) if name == "error" else ""
        return Verdict(_signature(name, value, text), 0.0, text)

    def program(self, module: bytes) -> bytes:
        """The module that a module is compiled to."""
        with shared_context():
            parsed = ir.Module.parse(module)
            name, value, planted = self._find(parsed, module)
            if name not in ("swap", "double"):
                return module
            return self._parts["miscompile"].miscompile(parsed, planted[-1], name, value)

    def _find(self, module: ir.Module, bytecode: bytes) -> tuple[str, str, list[Any]]:
        return self._parts["plants"].find_plant(self._plants, module, bytecode, self._counts)


def _signature(name: str, value: str, text: str) -> Signature | None:
    if name == "error":
        cause = find_cause(parse_diagnostics(text))
        assert cause is not None
        return Signature("error", cause.code, normalise_message(cause.message))
    if name == "signal":
        return Signature("signal", signal.Signals[value].name)
    if name == "hang":
        return Signature("timeout")
    if name == "memory":
        return Signature("out of memory")
    if name in ("swap", "double"):
        return Signature("different")
    assert not name, name
    return None
