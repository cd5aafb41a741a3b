"""Results that reuse the memory of arguments, in both notations that XLA reads.

An argument offers its memory by ``tf.aliasing_output``; a module states obligations in ``mhlo.input_output_alias``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

OFFER = "tf.aliasing_output"
STATED = "mhlo.input_output_alias"


@dataclass(frozen=True)
class Alias:
    """Result ``output`` reuses the memory of argument ``input``.

    ``kind`` is that of the module's statement, such as ``must_alias``; empty for the offer of an argument.
    """

    output: int
    input: int
    kind: str = ""


def read_aliases(module: ir.Module, function: Any) -> list[Alias]:
    """The aliases of a module with this entry function; parts of tuples have none."""
    offered = [
        Alias(ir.IntegerAttr(one[OFFER]).value, index)
        for index, one in enumerate(dictionaries(function, "arg_attrs"))
        if OFFER in one
    ]
    attributes = module.operation.attributes
    entries = list(ir.ArrayAttr(attributes[STATED])) if STATED in attributes else []
    return [*offered, *(_stated(ir.DictAttr(one)) for one in entries)]


def write_aliases(module: ir.Module, function: Any, aliases: Sequence[Alias]) -> None:
    """Replace the aliases of a module; ``function`` has its final type."""
    inputs, outputs = _counts(function)
    offers = {one.input: one.output for one in aliases if not one.kind}
    found = dictionaries(function, "arg_attrs") or [ir.DictAttr.get({})] * inputs
    set_dictionaries(function, "arg_attrs", [_offering(one, offers.get(index)) for index, one in enumerate(found)])
    attributes = module.operation.attributes
    if STATED in attributes:
        del attributes[STATED]
    texts = [_text(one, outputs) for one in aliases if one.kind]
    if texts:
        attributes[STATED] = ir.Attribute.parse(f"[{', '.join(texts)}]")


def dictionaries(function: Any, name: str) -> list[ir.DictAttr]:
    """The attributes of the arguments (``arg_attrs``) or results (``res_attrs``) of a function; none if it has none."""
    return [ir.DictAttr(one) for one in ir.ArrayAttr(function.attributes[name])] if name in function.attributes else []


def set_dictionaries(function: Any, name: str, values: Sequence[ir.DictAttr]) -> None:
    """Replace what ``dictionaries`` returns, by nothing if all are empty."""
    if any(len(one) for one in values):
        function.attributes[name] = ir.ArrayAttr.get(list(values))
    elif name in function.attributes:
        del function.attributes[name]


def _counts(function: Any) -> tuple[int, int]:
    type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return len(type.inputs), len(type.results)


def _stated(entry: ir.DictAttr) -> Alias:
    alias = ir.DictAttr(entry["alias"])
    path = list(ir.DenseI64ArrayAttr(entry["output_index"]))
    # A single result has the empty index.
    return Alias(
        path[0] if path else 0, ir.IntegerAttr(alias["parameter_number"]).value, ir.StringAttr(alias["kind"]).value
    )


def _offering(attributes: ir.DictAttr, output: int | None) -> ir.DictAttr:
    others = {one.name: one.attr for one in attributes if one.name != OFFER}
    offer = {} if output is None else {OFFER: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), output)}
    return ir.DictAttr.get({**others, **offer})


def _text(alias: Alias, outputs: int) -> str:
    index = f": {alias.output}" if outputs > 1 else ""
    return (
        f'{{alias = {{kind = "{alias.kind}", parameter_index = array<i64>, parameter_number = {alias.input} : i64}}, '
        f"output_index = array<i64{index}>}}"
    )
