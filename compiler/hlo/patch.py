"""What XLA's conversion leaves out of an HLO proto, or writes in a way that older readers do not take.

* The module's own id, a counter of the process that made it, is left out: equal modules are equal bytes.
* Ids are renumbered: XLA's have 64 bits since 2025 (the computation's in the upper half), older readers keep 32.
* Parameters and the root carry the names that the program's tensors get (``neff_input_names``, ``neff_output_names``),
  as NKIPy, AWS's public HLO builder, has them.
* A parameter that is returned as it came is copied: inputs and outputs have memory of their own there.
* An alias is an obligation, not an offer.
* Operations without a name get their source line as one.

Field numbers: xla/service/hlo.proto and xla/xla_data.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from ...errors import ArtifactError
from .wire import Field, message, pack, read_fields, unpack, varint, write_fields

_MODULE_COMPUTATIONS, _MODULE_ID, _MODULE_ENTRY_ID, _MODULE_ALIASES = 3, 5, 6, 8
_COMPUTATION_INSTRUCTIONS, _COMPUTATION_ID, _COMPUTATION_ROOT = 2, 5, 6
_NAME, _OPCODE, _SHAPE, _METADATA, _PARAMETER_NUMBER = 1, 2, 3, 7, 9
_ID, _OPERANDS, _CONTROL_PREDECESSORS, _CALLED, _FRONTEND_ATTRIBUTES = 35, 36, 37, 38, 68
_OP_NAME, _SOURCE_FILE, _SOURCE_LINE = 2, 3, 4
_ALIAS_KIND, _MUST_ALIAS = 4, 2


@dataclass(frozen=True)
class TensorNames:
    """Names of a program's tensors, in the order of its parameters and results."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def patch_module(proto: bytes, names: TensorNames) -> bytes:
    """An HLO module proto with everything above; ``names`` has one for each parameter and result.

    Raises:
        ArtifactError: ``proto`` is no HLO module proto.
    """
    return _ModulePatch(read_fields(proto), names).written()


class _ModulePatch:
    """One module, its computations and instructions by their new ids."""

    def __init__(self, fields: list[Field], names: TensorNames) -> None:
        self._fields = fields
        self._names = names
        computations = [read_fields(field.content) for field in fields if field.number == _MODULE_COMPUTATIONS]
        self._computation_ids = {_number(one, _COMPUTATION_ID): new for new, one in enumerate(computations, 1)}
        instructions = [_instructions(one) for one in computations]
        self._ids = {_number(one, _ID): new for new, one in enumerate(chain.from_iterable(instructions), 1)}
        self._free = count(len(self._ids) + 1)
        self._entry = _number(fields, _MODULE_ENTRY_ID)

    def written(self) -> bytes:
        return write_fields(self._module_field(one) for one in self._fields if one.number != _MODULE_ID)

    def _module_field(self, field: Field) -> Field:
        if field.number == _MODULE_COMPUTATIONS:
            return message(field.number, self._computation(read_fields(field.content)))
        if field.number == _MODULE_ENTRY_ID:
            return varint(field.number, self._computation_ids[self._entry])
        if field.number == _MODULE_ALIASES:
            entries = [read_fields(one.content) for one in read_fields(field.content)]
            return message(field.number, [message(1, _with(one, varint(_ALIAS_KIND, _MUST_ALIAS))) for one in entries])
        return field

    def _computation(self, fields: list[Field]) -> list[Field]:
        old = _number(fields, _COMPUTATION_ID)
        instructions = [self._instruction(one) for one in _instructions(fields)]
        root = self._ids[_number(fields, _COMPUTATION_ROOT)]
        if old == self._entry:
            instructions, root = self._entry_instructions(instructions, root)
        kept = [one for one in fields if one.number not in (_COMPUTATION_INSTRUCTIONS, _COMPUTATION_ROOT)]
        kept = _with(kept, varint(_COMPUTATION_ID, self._computation_ids[old]))
        written = [message(_COMPUTATION_INSTRUCTIONS, one) for one in instructions]
        return [*kept, *written, varint(_COMPUTATION_ROOT, root)]

    def _instruction(self, fields: list[Field]) -> list[Field]:
        return [self._instruction_field(field) for field in fields]

    def _instruction_field(self, field: Field) -> Field:
        if field.number == _ID:
            return varint(_ID, self._ids[_value(field)])
        if field.number in (_OPERANDS, _CONTROL_PREDECESSORS):
            return message(field.number, pack(self._ids[one] for one in unpack(field.content)))
        if field.number == _CALLED:
            return message(field.number, pack(self._computation_ids[one] for one in unpack(field.content)))
        if field.number == _METADATA:
            return message(field.number, _named_after_line(read_fields(field.content)))
        return field

    def _entry_instructions(self, instructions: list[list[Field]], root: int) -> tuple[list[list[Field]], int]:
        """The entry computation's instructions with named tensors and copied parameters, and its root's id."""
        by_id = {_number(one, _ID): one for one in instructions}
        parameters = {number for number, one in by_id.items() if _text(one, _OPCODE) == "parameter"}
        is_tuple = _text(by_id[root], _OPCODE) == "tuple"
        returned = unpack(_find(by_id[root], _OPERANDS).content) if is_tuple else [root]
        copies = {number: self._copy(by_id[number]) for number in returned if number in parameters}
        copy_ids = {number: _number(one, _ID) for number, one in copies.items()}
        named = [self._named_parameter(one) if _number(one, _ID) in parameters else one for one in instructions]
        named += copies.values()
        new_root = root if is_tuple else copy_ids.get(root, root)
        operands = message(_OPERANDS, pack(copy_ids.get(one, one) for one in returned))
        outputs = ",".join(self._names.outputs)
        return [
            _attributed(_with(one, operands) if is_tuple else one, "neff_output_names", outputs)
            if _number(one, _ID) == new_root
            else one
            for one in sorted(named, key=lambda one: _number(one, _ID) == new_root)
        ], new_root

    def _named_parameter(self, fields: list[Field]) -> list[Field]:
        return _attributed(fields, "neff_input_names", self._names.inputs[_number(fields, _PARAMETER_NUMBER)])

    def _copy(self, parameter: list[Field]) -> list[Field]:
        new = next(self._free)
        return [
            message(_NAME, f"copy.{new}".encode()),
            message(_OPCODE, b"copy"),
            _find(parameter, _SHAPE),
            varint(_ID, new),
            message(_OPERANDS, pack([_number(parameter, _ID)])),
        ]


def _instructions(computation: list[Field]) -> list[list[Field]]:
    return [read_fields(field.content) for field in computation if field.number == _COMPUTATION_INSTRUCTIONS]


def _named_after_line(metadata: list[Field]) -> list[Field]:
    numbers = {field.number for field in metadata}
    if _OP_NAME in numbers or not {_SOURCE_FILE, _SOURCE_LINE} <= numbers:
        return metadata
    line = f"{_text(metadata, _SOURCE_FILE)}:{_number(metadata, _SOURCE_LINE)}"
    return [*metadata, message(_OP_NAME, line.encode())]


def _attributed(instruction: list[Field], key: str, value: str) -> list[Field]:
    """The instruction with one more frontend attribute, an entry of a string map."""
    entry = message(1, [message(1, key.encode()), message(2, value.encode())])
    present = [field for field in instruction if field.number == _FRONTEND_ATTRIBUTES]
    attributes = [one for field in present for one in read_fields(field.content)]
    return _with(instruction, message(_FRONTEND_ATTRIBUTES, [*attributes, entry]))


def _with(fields: list[Field], field: Field) -> list[Field]:
    return [*(one for one in fields if one.number != field.number), field]


def _find(fields: list[Field], number: int) -> Field:
    for field in fields:
        if field.number == number:
            return field
    raise ArtifactError(f"no HLO module proto: a message has no field {number}")


def _text(fields: list[Field], number: int) -> str:
    return _find(fields, number).content.decode()


def _number(fields: list[Field], number: int) -> int:
    """The value of a field; zero, the default, is not written."""
    return next((_value(field) for field in fields if field.number == number), 0)


def _value(field: Field) -> int:
    if not isinstance(field.value, int):
        raise ArtifactError(f"no HLO module proto: field {field.number} is no number")
    return field.value
