"""FX graph of aten operators to one StableHLO module."""

from __future__ import annotations

import io
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.node import map_aggregate

from ...errors import LoweringError
from ...passes.locations import source_line
from ...runtime.artifacts import Artifact, TensorType
from . import (
    arithmetic,
    cast,
    comparison,
    convolution,
    creation,
    indexing,
    matmul,
    normalization,
    pointwise,
    pooling,
    primitives,
    reduction,
    scattering,
    shape,
    sorting,
    special_functions,
)
from .call_arguments import is_custom
from .composite import call_composite, define_private_function, tensor_inputs
from .context import shared_context
from .control_flow import WHILE_LOOP, emit_while, loop_graphs
from .decompose import Decompositions
from .device_kernels.replacement import Replacement, Replacements
from .emitter import Emitter
from .kernel_call import call_kernel
from .options import LoweringOptions
from .registry import LOWERINGS
from .support import DROPPED, check_graph
from .tensor import MLIR_NAMES, Tensor

FAMILIES = (
    arithmetic,
    cast,
    comparison,
    convolution,
    creation,
    indexing,
    matmul,
    normalization,
    pointwise,
    pooling,
    primitives,
    reduction,
    scattering,
    shape,
    sorting,
    special_functions,
)

IGNORED_KEYWORDS = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking"})


@dataclass(frozen=True)
class LoweredModule:
    """A StableHLO module, as MLIR bytecode with source locations, and its calling convention.

    ``aliases`` maps output index to input index. ``runtime_zero``: the entry function takes one more int32
    scalar, always zero. ``operator_counts`` counts lowered FX nodes, a composite's body once per signature.
    ``files`` are those that custom calls name, by ``<directory>/<name>`` under the compiler's working directory.
    """

    bytecode: bytes
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    aliases: Mapping[int, int]
    runtime_zero: bool
    operator_counts: Mapping[str, int]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def artifact(self, target: str, payload: bytes, fingerprint: str, log: str = "") -> Artifact:
        """What the compiler of ``target`` made of the module."""
        return Artifact(
            target=target,
            payload=payload,
            inputs=self.inputs,
            outputs=self.outputs,
            aliases=self.aliases,
            runtime_zero=self.runtime_zero,
            fingerprint=fingerprint,
            log=log,
        )

    def text(self, locations: bool = False) -> str:
        """The module as MLIR text."""
        with shared_context():
            return ir.Module.parse(self.bytecode).operation.get_asm(enable_debug_info=locations)  # pyright: ignore[reportReturnType]


def lower_graph(
    module: fx.GraphModule,
    options: LoweringOptions,
    aliases: Mapping[int, int] | None = None,
    decompositions: Decompositions | None = None,
    replacements: Replacements | None = None,
) -> LoweredModule:
    """Lower a functional, static-shape aten graph with flat tensor outputs.

    ``aliases`` maps an output index to the input whose memory it may reuse; shapes and dtypes must agree. Lowerings
    that are given the same ``decompositions`` and ``replacements``, made for the same options, record each operator
    signature once between them. A tracer's fake tensor mode is left for the time being: constants have values.

    Raises:
        LoweringError: naming every operator without a lowering, a dynamic shape, a dtype without a
            StableHLO type or an output that is no tensor, with the model's source line; or a device kernel that
            does not fit its operator.
    """
    with unset_fake_temporarily():
        return _lower(module, options, dict(aliases or {}), decompositions or Decompositions(options), replacements)


def _lower(
    module: fx.GraphModule,
    options: LoweringOptions,
    aliases: Mapping[int, int],
    decompositions: Decompositions,
    replacements: Replacements | None,
) -> LoweredModule:
    check_graph(module.graph, decompositions)
    placeholders = module.graph.find_nodes(op="placeholder")
    inputs = tuple(_tensor_type(node) for node in placeholders)
    returned = _returned(module)
    outputs = tuple(_tensor_type(node) for node in returned)
    _check_aliases(aliases, inputs, outputs)
    with shared_context(), ir.Location.unknown():
        lowering = _ModuleLowering(options, decompositions, replacements or Replacements(options))
        lowering.emit_main(module, inputs, outputs, aliases)
        try:
            lowering.module.operation.verify()
        except ir.MLIRError as error:
            raise LoweringError(
                f"the lowered module does not verify, the graph's types contradict it: {error}"
            ) from error
        buffer = io.BytesIO()
        lowering.module.operation.write_bytecode(buffer)
    counts = {str(target): count for target, count in lowering.counts.items()}
    return LoweredModule(buffer.getvalue(), inputs, outputs, aliases, options.exact, counts, lowering.files)


class _ModuleLowering:
    """State of one lowering: the module, and the private functions made so far."""

    def __init__(self, options: LoweringOptions, decompositions: Decompositions, replacements: Replacements):
        self.options = options
        self.decompositions = decompositions
        self.replacements = replacements
        self.files: dict[str, bytes] = {}
        self.module = ir.Module.create()
        self.counts: Counter[Any] = Counter()
        self._functions: dict[Any, tuple[str, list[Tensor]]] = {}

    def emit_main(
        self,
        module: fx.GraphModule,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        aliases: Mapping[int, int],
    ) -> None:
        """Write the public entry function."""
        outside = Emitter(self.options)
        input_types = [outside.type(one.dtype, one.shape) for one in inputs]
        if self.options.exact:
            input_types.append(outside.type(torch.int32, ()))
        output_types = [outside.type(one.dtype, one.shape) for one in outputs]
        with ir.InsertionPoint(self.module.body):
            function = func.FuncOp("main", (input_types, output_types), visibility="public")
        function.arg_attrs = [_alias_attribute(index, aliases) for index in range(len(input_types))]
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            values = list(block.arguments)
            emitter = outside.within(values.pop() if self.options.exact else None)
            arguments = [
                self._narrow(emitter, Tensor(value, one.dtype, one.shape))
                for value, one in zip(values, inputs, strict=True)
            ]
            results = self.emit_graph(emitter, module, arguments)
            widened = [emitter.convert(result, one.dtype) for result, one in zip(results, outputs, strict=True)]
            func.ReturnOp([result.value for result in widened])

    def emit_graph(self, emitter: Emitter, module: fx.GraphModule, arguments: Sequence[Tensor]) -> list[Any]:
        """Write every node of a graph at the current insertion point and return its outputs.

        A decomposition may have None among them, such as a gradient that nobody asked for.
        """
        values: dict[fx.Node, Any] = {}
        pending = iter(arguments)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(pending)
            elif node.op == "get_attr" and not isinstance(getattr(module, str(node.target)), fx.GraphModule):
                values[node] = self._narrow(emitter, emitter.constant_tensor(getattr(module, str(node.target))))
            elif node.op == "call_function" and node.target not in DROPPED:
                line = source_line(node)
                location: Any = ir.Location.current if line is None else ir.Location.file(line.file, line.line, 0)
                with location:
                    values[node] = self._emit_located(emitter, node, values)
        return [None if node is None else values[node] for node in _results(module)]

    def _emit_located(self, emitter: Emitter, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        try:
            return self._emit_call(emitter, node, values)
        except Exception as error:
            line = source_line(node)
            where = f" at {line}" if line else ""
            raise LoweringError(f"{node.target}{where}: {error}") from error

    def _emit_call(self, emitter: Emitter, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        if node.target is operator.getitem:
            return values[node.args[0]][node.args[1]]  # pyright: ignore[reportArgumentType]
        self.counts[node.target] += 1
        if node.target is WHILE_LOOP:
            return self._emit_while(emitter, node, values)
        rule = LOWERINGS.get(node.target)  # pyright: ignore[reportArgumentType]
        if rule is None:
            return self._emit_decomposed(emitter, node, [values[source] for source in tensor_inputs(node)])
        arguments, keywords = map_aggregate((node.args, node.kwargs), lambda one: _bound(one, values))
        used = {name: value for name, value in keywords.items() if name not in IGNORED_KEYWORDS}
        return rule(emitter, self._result_type(node), *arguments, **used)

    def _emit_while(self, emitter: Emitter, node: fx.Node, values: Mapping[fx.Node, Any]) -> tuple[Tensor, ...]:
        condition, body = loop_graphs(node)
        operands: Any = map_aggregate(node.args[2:], lambda one: _bound(one, values))
        carried, constants = operands
        return emit_while(
            emitter,
            carried,
            constants,
            lambda inner, typed: self.emit_graph(inner, condition, typed),
            lambda inner, typed: self.emit_graph(inner, body, typed),
        )

    def _emit_decomposed(self, emitter: Emitter, node: fx.Node, arguments: list[Tensor]) -> Any:
        replacement = self.replacements.find(node)
        if replacement is not None:
            results = self._emit_kernel(emitter, replacement, arguments)
        elif is_custom(node.target):
            results = self._emit_composite(emitter, node, arguments)
        else:
            results = self.emit_graph(emitter, self.decompositions.graph(node), arguments)
        return results[0] if isinstance(node.meta["val"], torch.Tensor) else tuple(results)

    def _emit_composite(self, emitter: Emitter, node: fx.Node, arguments: list[Tensor]) -> Sequence[Tensor]:
        key = self.decompositions.key(node)
        if key not in self._functions:
            graph = self.decompositions.graph(node)
            name = f"{node.target._opname}_{len(self._functions)}"  # pyright: ignore
            self._functions[key] = define_private_function(
                self.module.body, name, arguments, emitter, lambda inner, typed: self.emit_graph(inner, graph, typed)
            )
        function, results = self._functions[key]
        return call_composite(emitter, node, function, arguments, results)

    def _emit_kernel(self, emitter: Emitter, replacement: Replacement, arguments: list[Tensor]) -> Sequence[Tensor]:
        for name, content in replacement.files.items():
            if self.files.setdefault(name, content) != content:
                raise LoweringError(f"two kernels have a file {name}, with other contents: rename one kernel")
        kernel = replacement.kernel
        operands = self.emit_graph(emitter, replacement.operands, arguments)
        outputs = call_kernel(
            emitter, kernel.call_target, replacement.config, operands, replacement.outputs, kernel.aliases
        )
        return self.emit_graph(emitter, replacement.result, [*arguments, *outputs])

    def _result_type(self, node: fx.Node) -> Any:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return self._computed_type(value)
        return tuple(self._computed_type(one) for one in value if isinstance(one, torch.Tensor))

    def _computed_type(self, value: torch.Tensor) -> TensorType:
        dtype = value.dtype
        if dtype is torch.float64 and not self.options.float64:
            dtype = torch.float32
        if dtype is torch.int64 and not self.options.int64:
            dtype = torch.int32
        return TensorType(dtype, tuple(value.shape))

    def _narrow(self, emitter: Emitter, x: Tensor) -> Tensor:
        return emitter.convert(x, torch.float32) if x.dtype is torch.float64 and not self.options.float64 else x


def _bound(argument: Any, values: Mapping[fx.Node, Any]) -> Any:
    return values[argument] if isinstance(argument, fx.Node) else argument


def _results(module: fx.GraphModule) -> Sequence[Any]:
    (node,) = module.graph.find_nodes(op="output")
    returned = node.args[0]
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _returned(module: fx.GraphModule) -> Sequence[fx.Node]:
    outputs = _results(module)
    for index, output in enumerate(outputs):
        if not isinstance(output, fx.Node):
            raise LoweringError(f"output {index} of the graph is {output!r}: strip outputs that are no tensors first")
    return outputs


def _tensor_type(node: fx.Node) -> TensorType:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise LoweringError(f"{node.op} {node.name!r} is {value!r}: the lowering takes and returns tensors only")
    if value.dtype not in MLIR_NAMES:
        raise LoweringError(f"{node.op} {node.name!r} has dtype {value.dtype}, which StableHLO has no type for")
    return TensorType(value.dtype, tuple(value.shape))


def _check_aliases(aliases: Mapping[int, int], inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
    for output, source in aliases.items():
        if outputs[output] != inputs[source]:
            raise LoweringError(
                f"output {output} ({outputs[output]}) cannot reuse the memory of input {source} ({inputs[source]}): "
                "an aliased pair needs one dtype and shape"
            )
    if len(set(aliases.values())) != len(aliases):
        raise LoweringError(f"two outputs reuse the memory of one input: {dict(aliases)}")


def _alias_attribute(index: int, aliases: Mapping[int, int]) -> ir.DictAttr:
    outputs = [output for output, source in aliases.items() if source == index]
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), outputs[0]) if outputs else None
    return ir.DictAttr.get({"tf.aliasing_output": attribute} if attribute else {})
