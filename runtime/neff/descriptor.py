"""The JSON documents of a NEFF that say what it is for: ``kelf-a.json`` and ``sg*/def.json``.

``def.json``: AWS Neuron SDK documentation, "Work with NEFF Files", section Variables. ``kelf-*.json`` is named in logs
of the Neuron runtime (aws-neuron-sdk#779) and not documented; of it only ``target`` is read, and only known values of
it mean something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import ArtifactError

DESCRIPTOR = "kelf-a.json"
ANY_TARGET = "*"
TARGET_NAMES: Mapping[str, tuple[str, ...]] = {
    "trn1": ("v2", "sunda"),
    "trn2": ("v3", "cayman"),
    "trn3": ("v4", "mariana"),
}
"""How a descriptor names the cores of each instance family: by generation of the NeuronCore, or by code name."""

_DESCRIPTOR = re.compile(r"kelf-\w+\.json")
_DEFINITION = re.compile(r"sg[0-9]{2,}/def\.json")

Usage = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class NeffTensor:
    """An input or output that one subgraph declares; shapes and types are not part of the published format.

    Attributes:
        subgraph: directory of the subgraph, ``sg00`` for the first core.
        name: what the runtime calls the tensor.
        usage: whether the program reads or writes it.
        size: bytes.
    """

    subgraph: str
    name: str
    usage: Usage
    size: int


def is_descriptor(name: str) -> bool:
    """Whether a member is one of these documents."""
    return any(pattern.fullmatch(name) for pattern in (_DESCRIPTOR, _DEFINITION))


def declared_target(contents: Mapping[str, bytes]) -> str | None:
    """The target a program was compiled for: ``trn1``, ``trn2``, ``trn3``, ``*`` for any, None if it does not say.

    Raises:
        ArtifactError: the descriptor is not JSON.
    """
    descriptors = sorted(name for name in contents if _DESCRIPTOR.fullmatch(name))
    if not descriptors:
        return None
    name = _object(descriptors[0], contents[descriptors[0]]).get("target")
    if name == ANY_TARGET:
        return ANY_TARGET
    return next((target for target, names in TARGET_NAMES.items() if name in names), None)


def declared_tensors(contents: Mapping[str, bytes]) -> tuple[NeffTensor, ...]:
    """The inputs and outputs of every subgraph, in the order of their declaration.

    Raises:
        ArtifactError: a definition is not JSON, or declares an input or output without a size.
    """
    definitions = sorted(name for name in contents if _DEFINITION.fullmatch(name))
    return tuple(tensor for name in definitions for tensor in _tensors(name, contents[name]))


def subgraphs(names: list[str]) -> tuple[str, ...]:
    """The directories of the subgraphs among the names of the members."""
    return tuple(sorted(name.partition("/")[0] for name in names if _DEFINITION.fullmatch(name)))


def describe(target: str, graphs: tuple[str, ...]) -> bytes:
    """A ``kelf-a.json`` for a target of ``TARGET_NAMES`` or ``*``."""
    name = ANY_TARGET if target == ANY_TARGET else TARGET_NAMES[target][0]
    listed = [{"definition": f"{graph}/def.json", "name": graph} for graph in graphs]
    return json.dumps({"graphs": listed, "target": name, "version": "0.5"}, indent=1).encode()


def define(tensors: tuple[NeffTensor, ...]) -> bytes:
    """A ``def.json`` that declares these tensors and nothing else."""
    variables = {
        tensor.name: {"type": tensor.usage, "var_id": number, "size": tensor.size}
        for number, tensor in enumerate(tensors)
    }
    return json.dumps({"name": "definition", "var": variables, "version": "0.6"}, indent=1).encode()


def _tensors(definition: str, content: bytes) -> list[NeffTensor]:
    variables = _object(definition, content).get("var", {})
    if not isinstance(variables, dict):
        raise _malformed(definition, "'var' is no object")
    tensors: list[NeffTensor] = []
    for name, variable in variables.items():
        usage = variable.get("type") if isinstance(variable, dict) else None
        if usage not in ("input", "output"):
            continue
        size = variable.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _malformed(definition, f"{usage} {name!r} has size {size!r}, expected a number of bytes")
        tensors.append(NeffTensor(definition.partition("/")[0], name, usage, size))
    return tensors


def _object(name: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _malformed(name, f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise _malformed(name, "no JSON object")
    return value


def _malformed(name: str, what: str) -> ArtifactError:
    return ArtifactError(f"NEFF member {name}: {what}; the file is damaged, compile it again")
