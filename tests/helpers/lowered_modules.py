"""StableHLO modules of real models, and what they compute on the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.runtime.devices.pjrt import client, compile_options, device_list, host_device
from deepinfer_neuron.runtime.slots import SlotSpec
from host_programs import aligned
from jaxlib.mlir import ir


@dataclass(frozen=True)
class _Target:
    name: str


def lower_step(
    model: Any, examples: Any, target: str, options: LoweringOptions, slots: Sequence[SlotSpec] = ()
) -> LoweredModule:
    """One step after all passes, as one module."""
    passed = pass_captured(capture(model, examples), _Target(target), slots)
    (region,) = cut_graph(passed.module, passed.context.aliases, passed.context.stage_names, whole=True).regions
    return lower_graph(region.module, options, region.aliases)


def lower_decode(model: Any, batch_size: int, target: str, options: LoweringOptions) -> LoweredModule:
    """A model's decode step as one module."""
    examples: Mapping[str, torch.Tensor] = {
        spec.name: torch.full((batch_size, *spec.row_shape), spec.pad_value, dtype=spec.dtype)
        for spec in model.decode_slots
    }
    return lower_step(model, examples, target, options, model.decode_slots)


def parsed(module: bytes | str) -> ir.Module:
    """The module, verified."""
    with shared_context():
        result = ir.Module.parse(module)
        assert result.operation.verify()
        return result


def text_of(module: bytes | str, locations: bool = False) -> str:
    """The module as text."""
    with shared_context():
        return str(parsed(module).operation.get_asm(enable_debug_info=locations))


def main_of(module: ir.Module) -> Any:
    """The entry function."""
    return ir.SymbolTable(module.operation)["main"].operation


def values_of(module: bytes, arguments: Sequence[torch.Tensor], numbers: Iterable[int]) -> dict[int, torch.Tensor]:
    """What the host computes for these values of a module; see ``returning``."""
    ordered = sorted(set(numbers))
    return dict(zip(ordered, run_module(returning(module, ordered), arguments), strict=True))


def argument_types(module: bytes | str) -> list[str]:
    """Types of the entry function's arguments."""
    with shared_context():
        whole = parsed(module)
        return [str(one.type) for one in main_of(whole).regions[0].blocks[0].arguments]


def returning(module: bytes, numbers: Sequence[int]) -> str:
    """A module that returns these of its values and updates nothing in place.

    Values count from its arguments on through what its operations make, in order.
    """
    with shared_context(), ir.Location.unknown():
        whole = parsed(module)
        function = main_of(whole)
        block = function.regions[0].blocks[0]
        *operations, end = [one.operation for one in block.operations]
        made = [*block.arguments, *(value for one in operations for value in one.results)]
        values = [made[number] for number in numbers]
        with ir.InsertionPoint(end):
            ir.Operation.create("func.return", operands=values)
        end.erase()
        type = ir.FunctionType.get([one.type for one in block.arguments], [one.type for one in values])
        function.attributes["function_type"] = ir.TypeAttr.get(type)
        for name in ("arg_attrs", "res_attrs"):
            if name in function.attributes:
                del function.attributes[name]
        return str(whole.operation.get_asm())


_DTYPES = {"i1": torch.bool, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "f32": torch.float32}
_DTYPES |= {"i16": torch.int16, "ui8": torch.uint8, "f64": torch.float64, "i8": torch.int8}


def random_arguments(module: bytes, seed: int = 0) -> list[torch.Tensor]:
    """Values for the entry function's arguments: integers are 0 or 1, so that they index everything."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    with shared_context():
        whole = parsed(module)
        for one in main_of(whole).regions[0].blocks[0].arguments:
            type = ir.RankedTensorType(one.type)
            dtype = _DTYPES[str(type.element_type)]
            shape = tuple(type.shape)
            values = torch.randn(shape, generator=generator)
            made.append(values.to(dtype) if dtype.is_floating_point else (values > 0).to(dtype))
    return made


def run_module(module: bytes | str, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What XLA computes on the host."""
    device = host_device()
    loaded = client().compile_and_load(module, device_list(), compile_options())
    outputs = loaded.execute([device.buffer(aligned(one), donatable=True) for one in arguments])
    return [device.to_torch(one).clone() for one in outputs]
