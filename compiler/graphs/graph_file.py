"""Graphs of operators on disk, as JSON that people can read: one node a line.

Read in another process, on another machine, a graph is lowered to the same bytes: names, types, constants, loops,
stages and the model's lines are kept. Values of inputs are not. Nothing in a file is executed; see ``graph_values``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from ...errors import ArtifactError, GraphError
from ...files import write_text
from ...passes.context import REACH, STAGE, placeholders, results
from ...passes.lazy_module import lazy_module
from ...passes.locations import SourceLine, source_line, stack_trace_of
from ..lowering.options import Numerics
from .graph_values import (
    decode_argument,
    decode_target,
    decode_tensor,
    decode_type,
    encode_argument,
    encode_target,
    encode_tensor,
    encode_type,
)
from .versions import versions

SCHEMA = 1
"""Counts changes of what a file means."""

_KIND = "deepinfer-neuron graph"
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATIONS = ("placeholder", "get_attr", "call_function", "output")
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, RecursionError)


@dataclass(frozen=True)
class SavedGraph:
    """A graph and what has to be known to compile it.

    Attributes:
        module: a functional aten graph, as passes or a cut left it.
        aliases: output index -> index of the input whose memory it reuses.
        target: whose passes it went through.
        stage_names: by the numbers that nodes are marked with; empty if they are not known.
        numerics: how it is lowered.
        name: what people call it, such as ``layers.0.attention``.
        versions: of what made the file.
    """

    module: fx.GraphModule
    aliases: Mapping[int, int]
    target: str
    stage_names: Sequence[str] = ()
    numerics: Numerics = "fast"
    name: str = ""
    versions: Mapping[str, str] = field(default_factory=versions)


def save_graph(path: Path, saved: SavedGraph) -> None:
    """Write a graph to a file, whole or not at all; raises as ``graph_to_text``, or OSError."""
    write_text(path, graph_to_text(saved))


def load_graph(path: Path) -> SavedGraph:
    """Read a graph from a file; raises as ``graph_from_text``, or OSError."""
    return graph_from_text(path.read_text(encoding="utf-8", errors="replace"), str(path))


def graph_to_text(saved: SavedGraph) -> str:
    """The content of a file.

    Raises:
        GraphError: the graph has symbolic shapes, or calls something else than operators.
    """
    header = {
        "kind": _KIND,
        "schema": SCHEMA,
        "name": saved.name,
        "target": saved.target,
        "numerics": saved.numerics,
        "versions": dict(saved.versions),
        "aliases": [[output, source] for output, source in sorted(saved.aliases.items())],
        "stage_names": list(saved.stage_names),
        "libraries": _libraries(saved.module),
    }
    fields = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in header.items()]
    return "{\n" + ",\n".join([*fields, f'"graph": {_encode_graph(saved.module)}']) + "\n}\n"


def graph_from_text(text: str, where: str) -> SavedGraph:
    """A graph from the content of the file ``where``.

    Raises:
        ArtifactError: it is damaged, of another kind or schema, or calls an operator that is not registered here.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{where} is no saved graph: {error}; `deepinfer-neuron dump` writes one") from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ArtifactError(f"{where} is no saved graph: expected a JSON object of kind {_KIND!r}")
    if content.get("schema") != SCHEMA:
        raise ArtifactError(
            f"{where} has schema {content.get('schema')!r}, and this version reads {SCHEMA}: write it again with "
            f"`deepinfer-neuron dump`, or read it with the version that wrote it: {content.get('versions')}"
        )
    try:
        saved = _decode(content)
        saved.module.graph.lint()
    except ArtifactError as error:
        raise ArtifactError(f"{where}: {error}") from error
    except _DAMAGE as error:
        raise ArtifactError(f"{where} is damaged: {type(error).__name__}: {error}; write it again") from error
    return saved


def _decode(content: Mapping[str, Any]) -> SavedGraph:
    module = _decode_graph(content["graph"], dict(content["libraries"]))
    saved = SavedGraph(
        module=module,
        aliases=dict(content["aliases"]),
        target=_text(content["target"]),
        stage_names=tuple(map(_text, content["stage_names"])),
        numerics=content["numerics"],
        name=_text(content["name"]),
        versions={_text(name): _text(one) for name, one in content["versions"].items()},
    )
    if saved.numerics not in ("fast", "exact"):
        raise ValueError(f"unknown numerics {saved.numerics!r}")
    returned, inputs = results(module), placeholders(module)
    for output, source in saved.aliases.items():
        if not (0 <= output < len(returned) and 0 <= source < len(inputs)):
            raise ValueError(f"output {output} reuses input {source}, of {len(returned)} and {len(inputs)}")
    return saved


def _encode_graph(module: fx.GraphModule) -> str:
    constants, graphs = {}, {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            held = getattr(module, str(node.target))
            if isinstance(held, fx.GraphModule):
                graphs[str(node.target)] = _encode_graph(held)
            else:
                constants[str(node.target)] = encode_tensor(held)
    inner = ",\n".join(f"{json.dumps(name)}: {graph}" for name, graph in graphs.items())
    nodes = ",\n".join(json.dumps(_encode_node(node)) for node in module.graph.nodes)
    return f'{{"constants": {json.dumps(constants)},\n"graphs": {{{inner}}},\n"nodes": [\n{nodes}\n]}}'


def _encode_node(node: fx.Node) -> dict[str, Any]:
    if node.op not in _OPERATIONS:
        raise GraphError(f"{node.op} {node.target} cannot be saved: only graphs of operators can")
    content: dict[str, Any] = {"name": node.name, "op": node.op}
    if node.op == "call_function":
        content["target"] = encode_target(node.target)
    elif node.op == "get_attr":
        content["target"] = str(node.target)
    if node.args:
        content["args"] = [encode_argument(one) for one in node.args]
    if node.kwargs:
        content["kwargs"] = {name: encode_argument(one) for name, one in node.kwargs.items()}
    if "val" in node.meta and node.op != "output":
        content["type"] = encode_type(node.meta["val"])
    line = source_line(node)
    if line is not None:
        content["line"] = [line.file, line.line]
    content.update({name: node.meta[name] for name in (STAGE, REACH) if name in node.meta})
    return content


def _decode_graph(content: Mapping[str, Any], libraries: Mapping[str, str]) -> fx.GraphModule:
    root = torch.nn.Module()
    for name, constant in content["constants"].items():
        root.register_buffer(_identifier(name), decode_tensor(constant))
    for name, inner in content["graphs"].items():
        root.add_module(_identifier(name), _decode_graph(inner, libraries))
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    for one in content["nodes"]:
        node = nodes[one["name"]] = _decode_node(graph, one, nodes, libraries)
        if node.op == "get_attr" and not hasattr(root, str(node.target)):
            raise ValueError(f"{node.name} is constant {node.target}, which is not there")
    if [node.op for node in graph.nodes].count("output") != 1:
        raise ValueError("a graph has one output")
    return lazy_module(root, graph)


def _decode_node(
    graph: fx.Graph, content: Mapping[str, Any], nodes: Mapping[str, fx.Node], libraries: Mapping[str, str]
) -> fx.Node:
    name, operation = _identifier(content["name"]), content["op"]
    if operation not in _OPERATIONS:
        raise ValueError(f"{name} is a {operation!r}, which graphs do not have")
    targets = {"call_function": lambda: decode_target(content["target"], libraries), "output": lambda: "output"}
    target = targets.get(operation, lambda: _identifier(content.get("target", name)))()
    arguments = tuple(decode_argument(one, nodes) for one in content.get("args", []))
    keywords = {_identifier(key): decode_argument(one, nodes) for key, one in content.get("kwargs", {}).items()}
    node = graph.create_node(operation, target, arguments, keywords, name)
    if node.name != name:
        raise ValueError(f"{name!r} is there twice, or is no name of a node")
    if "type" in content:
        node.meta["val"] = decode_type(content["type"])
    if "line" in content:
        file, line = content["line"]
        node.meta["stack_trace"] = stack_trace_of(SourceLine(_text(file), _number(line)))
    if STAGE in content:
        node.meta[STAGE] = _number(content[STAGE])
    if REACH in content:
        first, end = content[REACH]
        node.meta[REACH] = (_number(first), _number(end))
    return node


def _libraries(module: fx.GraphModule) -> dict[str, str]:
    """The Python module that says what an operator means, for operators that are not PyTorch's own."""
    called = {
        node.target for inner in module.modules() if isinstance(inner, fx.GraphModule) for node in inner.graph.nodes
    }
    kernels = [one for one in called if isinstance(one, OpOverload) and one in decomposition_table]
    found = {encode_target(one): str(decomposition_table[one].__module__) for one in kernels}
    return {name: found[name] for name in sorted(found) if found[name].partition(".")[0] != "torch"}


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name")
    return name


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise TypeError(f"{content!r} is no text")
    return content


def _number(content: Any) -> int:
    if type(content) is not int or content < 0:
        raise ValueError(f"{content!r} is no number of a line, a stage or a row")
    return content
