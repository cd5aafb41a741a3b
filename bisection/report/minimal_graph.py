"""The nodes of a small program, whether it is an FX graph or a StableHLO module, as people look at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from torch import fx

from ...compiler.lowering.context import shared_context
from ...passes.locations import source_line
from ...preflight.module_view import ModuleView, line_of
from ..subjects.graph_text import target_text, type_text
from ..subjects.subject import Candidate

INPUT, CONSTANT = "input", "constant"


@dataclass(frozen=True)
class GraphNode:
    """An input, a constant or an operation.

    Attributes:
        name: such as ``%mm_3``.
        operator: such as ``aten.mm.default`` or ``stablehlo.sort``; else ``INPUT`` or ``CONSTANT``.
        type: of its result, such as ``bf16[4, 512]``; of several all of them.
        line: of the model, such as ``model/moe.py:80``; empty if it is not known.
        reads: indices of the nodes that it uses, each once, all smaller than its own.
        is_returned: whether a result of the program.
    """

    name: str
    operator: str
    type: str
    line: str
    reads: tuple[int, ...]
    is_returned: bool

    @property
    def is_operation(self) -> bool:
        """Whether it computes something."""
        return self.operator not in (INPUT, CONSTANT)


def nodes_of(candidate: Candidate) -> tuple[GraphNode, ...]:
    """The nodes of a candidate in order, of its FX graph if it has one, otherwise of its module's entry function."""
    return _module_nodes(candidate.module) if candidate.graph is None else _graph_nodes(candidate.graph)


def operators_of(nodes: tuple[GraphNode, ...]) -> list[str]:
    """The operators of a program, each once, in order."""
    return list(dict.fromkeys(node.operator for node in nodes if node.is_operation))


def _graph_nodes(module: fx.GraphModule) -> tuple[GraphNode, ...]:
    shown = [node for node in module.graph.nodes if node.op != "output" and not _is_inner_graph(module, node)]
    index = {node: position for position, node in enumerate(shown)}
    returned = {one for node in module.graph.find_nodes(op="output") for one in node.all_input_nodes}
    return tuple(
        GraphNode(
            name=f"%{node.name}",
            operator={"placeholder": INPUT, "get_attr": CONSTANT}.get(node.op, target_text(node.target)),
            type=type_text(node.meta["val"] if "val" in node.meta else getattr(module, str(node.target))),
            line=str(source_line(node) or ""),
            reads=tuple(index[one] for one in node.all_input_nodes if one in index),
            is_returned=node in returned,
        )
        for node in shown
    )


def _is_inner_graph(module: fx.GraphModule, node: fx.Node) -> bool:
    return node.op == "get_attr" and isinstance(getattr(module, str(node.target)), fx.GraphModule)


def _module_nodes(bytecode: bytes) -> tuple[GraphNode, ...]:
    with shared_context():
        view = ModuleView(ir.Module.parse(bytecode))
        block = view.main.regions[0].blocks[0]
        operations = list(block.operations)
        body, end = operations[:-1], operations[-1]
        makers = {value: number for number, value in enumerate(block.arguments)}
        first = len(makers)
        makers |= {value: first + number for number, one in enumerate(body) for value in one.results}
        returned = {makers[value] for value in end.operands}
        inputs = [
            GraphNode(value.get_name(), INPUT, _tensor_text(value), "", (), number in returned)
            for number, value in enumerate(block.arguments)
        ]
        return (*inputs, *(_module_node(one, makers, number in returned) for number, one in enumerate(body, first)))


def _module_node(operation: Any, makers: dict[Any, int], is_returned: bool) -> GraphNode:
    name = operation.operation.name
    return GraphNode(
        name=operation.results[0].get_name() if len(operation.results) else "-",
        operator=CONSTANT if name == "stablehlo.constant" else name,
        type=", ".join(map(_tensor_text, operation.results)),
        line=line_of(operation) or "",
        reads=tuple(sorted({makers[value] for value in _used(operation.operation) if value in makers})),
        is_returned=is_returned,
    )


def _used(operation: Any) -> list[Any]:
    """The values that an operation reads, those that its regions take from outside included."""
    values: list[Any] = []

    def note(one: Any) -> Any:
        values.extend(one.operands)
        return ir.WalkResult.ADVANCE

    operation.walk(note)
    return values


def _tensor_text(value: Any) -> str:
    if not isinstance(value.type, ir.RankedTensorType):
        return str(value.type)
    return f"{value.type.element_type}{list(value.type.shape)}"
