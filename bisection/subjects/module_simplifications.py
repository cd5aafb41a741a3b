"""Simpler modules to try in the place of a small one that fails. Shapes stay as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

from jaxlib.mlir import ir

from ...compiler.lowering.context import shared_context
from .module_aliases import Alias, dictionaries, read_aliases, set_dictionaries, write_aliases
from .module_parts import EntryFunction, bytecode, entry_of, nested, set_type
from .subject import Candidate

_CONSTANT = "stablehlo.constant"


ModuleProposer = Callable[[bytes], Iterator[bytes]]
"""Makes simpler modules, the simplest first, from one as ``read_module`` returns it."""


def zero_constants(module: bytes) -> Iterator[bytes]:
    """Constants without information: all of them, also those inside of functions and regions, then each one."""
    return _proposals(module, _constants_to_zero, _zero)


def constants_as_arguments(module: bytes) -> Iterator[bytes]:
    """Constants of the entry function as its last arguments: all of them, then each one."""
    return _proposals(module, _constants_of_entry, _as_arguments)


def without_unused_arguments(module: bytes) -> Iterator[bytes]:
    """Fewer arguments: without all that nothing reads, then without each of those."""
    return _proposals(module, _unused, _drop)


def merged_arguments(module: bytes) -> Iterator[bytes]:
    """One argument in the place of several of one type: all of a type, then each two of it.

    Two of them that lend their memory to results stay two.
    """
    with shared_context():
        entry = entry_of(ir.Module.parse(module))
        lenders = {one.input for one in read_aliases(entry.module, entry.function)}
        alike: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(entry.block.arguments):
            alike[str(one.type)].append(index)
    groups = [one for one in alike.values() if len(one) > 1]
    pairs = [pair for group in groups if len(group) > 2 for pair in combinations(group, 2)]
    for group in [*groups, *pairs]:
        if len(lenders.intersection(group)) < 2:
            yield from _proposal(module, lambda entry, group=group: _merge(entry, group))


MODULE_PROPOSERS: tuple[ModuleProposer, ...] = (
    zero_constants,
    constants_as_arguments,
    without_unused_arguments,
    merged_arguments,
)
"""In the order in which they are tried.

Each proposal has fewer operations than its module, or as many and fewer constants that are not zero, or as many of
both and fewer arguments. So a search that takes what still fails comes to an end.
"""


def candidate_of(module: bytes) -> Candidate:
    """A module as ``read_module`` returns it, as what a compiler is given."""
    with shared_context():
        entry = entry_of(ir.Module.parse(module))
        aliases = {one.output: one.input for one in read_aliases(entry.module, entry.function)}
        return Candidate(len(entry.operations), module, aliases=aliases)


def _proposals(
    module: bytes,
    found: Callable[[EntryFunction], Sequence[Any]],
    change: Callable[[EntryFunction, Sequence[Any]], None],
) -> Iterator[bytes]:
    """One change to everything that is found, then to each of it."""
    with shared_context(), ir.Location.unknown():
        count = len(found(entry_of(ir.Module.parse(module))))
    for chosen in [range(count)] * (count > 1) + [range(index, index + 1) for index in range(count)]:
        yield from _proposal(
            module, lambda entry, chosen=chosen: change(entry, [found(entry)[index] for index in chosen])
        )


def _proposal(module: bytes, change: Callable[[EntryFunction], None]) -> Iterator[bytes]:
    """The changed module; nothing if it is none, as where a shape is a constant."""
    with shared_context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        change(entry_of(parsed))
        try:
            parsed.operation.verify()
        except ir.MLIRError:
            return
        content = bytecode(parsed)
    yield content


def _constants_to_zero(entry: EntryFunction) -> list[Any]:
    constants = [one for one in nested(entry.module.operation) if one.name == _CONSTANT]
    zeros = [_zero_of(one) for one in constants]
    pairs = [(one, zero) for one, zero in zip(constants, zeros, strict=True) if zero is not None]
    return [one for one, zero in pairs if zero != one.attributes["value"]]


def _zero_of(constant: Any) -> ir.Attribute | None:
    """The constant's type filled with zero; None for element types without one, or that are not known here."""
    type = ir.RankedTensorType(constant.results[0].type)
    element = type.element_type
    if isinstance(element, ir.IntegerType):
        return ir.DenseElementsAttr.get_splat(type, ir.IntegerAttr.get(element, 0))
    # float8_e8m0fnu has powers of two alone.
    if isinstance(element, ir.FloatType) and not isinstance(element, ir.Float8E8M0FNUType):
        return ir.DenseElementsAttr.get_splat(type, ir.FloatAttr.get(element, 0.0))
    return None


def _zero(entry: EntryFunction, constants: Sequence[Any]) -> None:
    for one in constants:
        one.attributes["value"] = _zero_of(one)


def _constants_of_entry(entry: EntryFunction) -> list[Any]:
    return [one for one in entry.operations if one.name == _CONSTANT]


def _as_arguments(entry: EntryFunction, constants: Sequence[Any]) -> None:
    for one in constants:
        (value,) = one.results
        value.replace_all_uses_with(entry.block.add_argument(value.type, ir.Location.unknown()))
        one.erase()
    _set_arguments(entry, [*range(len(entry.block.arguments))], read_aliases(entry.module, entry.function))


def _unused(entry: EntryFunction) -> list[int]:
    return [index for index, one in enumerate(entry.block.arguments) if not list(one.uses)]


def _drop(entry: EntryFunction, arguments: Sequence[int]) -> None:
    kept = [index for index in range(len(entry.block.arguments)) if index not in arguments]
    aliases = [one for one in read_aliases(entry.module, entry.function) if one.input in kept]
    for index in sorted(arguments, reverse=True):
        entry.block.erase_argument(index)
    _set_arguments(entry, kept, aliases)


def _merge(entry: EntryFunction, arguments: Sequence[int]) -> None:
    """The last of the arguments go; if one of them lends its memory, it is the one that stays."""
    lenders = [one.input for one in read_aliases(entry.module, entry.function)]
    stays = next((one for one in arguments if one in lenders), arguments[0])
    values = list(entry.block.arguments)
    others = [one for one in arguments if one != stays]
    for one in others:
        values[one].replace_all_uses_with(values[stays])
    _drop(entry, others)


def _set_arguments(entry: EntryFunction, before: Sequence[int], aliases: Sequence[Alias]) -> None:
    """Bring type and attributes of the function in line with its block.

    Args:
        before: for each argument, the number that it had; beyond those that the function had for new ones.
        aliases: in the numbers from before.
    """
    terminator = entry.terminator
    set_type(entry.function, list(entry.block.arguments), list(terminator.operands))
    had = dict(enumerate(dictionaries(entry.function, "arg_attrs")))
    set_dictionaries(entry.function, "arg_attrs", [had.get(one, ir.DictAttr.get({})) for one in before])
    now = [Alias(one.output, before.index(one.input), one.kind) for one in aliases]
    write_aliases(entry.module, entry.function, now)
