"""A StableHLO module as something to cut down: any of its operations, alone or together, are a module of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from ...compiler.lowering.context import shared_context
from ...errors import GraphError
from .module_aliases import STATED, Alias, dictionaries, read_aliases, set_dictionaries, write_aliases
from .module_functions import called_by, name_by_content, needed_functions
from .module_lines import file_and_line, keep_only_lines
from .module_parts import ENTRY, bytecode, copy_operation, entry_of, functions_of, nested
from .module_reader import read_module
from .operation_text import operation_name, operation_text
from .subject import Candidate, Item

_OF_EVERY_ARGUMENT = (STATED, "mhlo.cross_program_prefetches", "mhlo.spmd_parameters_shardings")
"""Attributes of modules that number the entry's arguments."""

_OF_THE_SIGNATURE = ("sym_name", "function_type", "arg_attrs", "res_attrs")


@dataclass(frozen=True)
class Part:
    """A part of a program, in numbers of the whole.

    Attributes:
        arguments: values that it is given. Values count from the arguments of the whole program on through what its
            operations make, in order.
        operations: that it has.
        returned: values that it returns.
        results: which results of the whole program the first of ``returned`` are.
    """

    arguments: Sequence[int]
    operations: Sequence[int]
    returned: Sequence[int]
    results: Sequence[int]

    def aliases(self, whole: Iterable[Alias]) -> list[Alias]:
        """Those of the whole program whose argument and result are here."""
        outputs = {position: index for index, position in enumerate(self.results)}
        inputs = {number: index for index, number in enumerate(self.arguments)}
        return [
            Alias(outputs[one.output], inputs[one.input], one.kind)
            for one in whole
            if one.output in outputs and one.input in inputs
        ]


class ModuleSubject:
    """The operations and results of the entry function of a StableHLO module; see ``Subject``. For one thread.

    Regions go with their operation, and so do functions that it calls. What a program loses with an operation comes
    back as an argument. Arguments of the whole program that are left come first, in their order, then others in the
    order of their first use. Results that are kept come first among the results, then those of operations that are not
    read any more. Aliases stay as long as both the argument and the result do.

    Candidates know no locations but the model's lines, and name functions by what they compute.

    Args:
        source: whatever ``read_module`` takes, and raises ArtifactError for otherwise.
    """

    def __init__(self, source: bytes | Path):
        self.module = read_module(source)
        with shared_context():
            module = ir.Module.parse(self.module)
            keep_only_lines(module)
            name_by_content(module)
            self._entry = entry_of(module)
            self._program = _Program.of(self._entry.block.arguments, self._entry.operations, self._entry.returned)
            self._functions = {name: one for name, one in functions_of(module).items() if name != ENTRY}
            self._calls = {name: called_by(one) for name, one in self._functions.items()}
            self._called = [called_by(one) for one in self._entry.operations]
            self._aliases = read_aliases(module, self._entry.function)

    @property
    def items(self) -> Sequence[Item]:
        """See ``Subject.items``. A group is a run of operations that come from one file of the model."""
        return self._items

    @cached_property
    def _items(self) -> Sequence[Item]:
        with shared_context():
            state = ir.AsmState(self._entry.module.operation)
            lines = [file_and_line(one) for one in self._entry.operations]
            groups = _runs([line[0] if line else "" for line in lines])
            operations = [
                Item(
                    name=operation_name(operation, state),
                    text=operation_text(operation, state),
                    line=f"{line[0]}:{line[1]}" if line else "",
                    group=group,
                    reads=self._program.reads(number),
                )
                for number, (operation, line, group) in enumerate(
                    zip(self._entry.operations, lines, groups, strict=True)
                )
            ]
            return (
                *operations,
                *(self._result(position, operations, state) for position in range(len(self._program.returned))),
            )

    def candidate(self, keep: Collection[int]) -> Candidate:
        """See ``Subject.candidate``. A result is returned if its operation is kept too, or if it is an argument.

        Raises:
            GraphError: ``keep`` has no operation, an item that does not exist, or operations that need one another.
        """
        part = self.part(keep)
        if part is self._program.whole:
            return Candidate(
                len(part.operations), self.module, aliases={one.output: one.input for one in self._aliases}
            )
        with shared_context(), ir.Location.unknown():
            return self._written(part)

    def part(self, keep: Collection[int]) -> Part:
        """Which values of the whole program the arguments and results of a candidate are.

        Raises:
            GraphError: ``keep`` has no operation, or an item that does not exist.
        """
        kept = sorted(set(keep))
        operations = len(self._entry.operations)
        items = operations + len(self._program.returned)
        if kept and not 0 <= kept[0] <= kept[-1] < items:
            raise GraphError(f"items {kept} of a program that has {items}")
        if not kept or kept[0] >= operations:
            raise GraphError("a program without any operation: keep at least one")
        if len(kept) == items:
            return self._program.whole
        chosen = [index for index in kept if index < operations]
        return self._program.part(chosen, [index - operations for index in kept if index >= operations])

    def _result(self, position: int, operations: Sequence[Item], state: ir.AsmState) -> Item:
        value = self._entry.returned[position]
        maker = self._program.maker.get(self._program.returned[position])
        return Item(
            name=f"result {position}",
            text=f"return {value.get_name(state)} : {value.type}",
            line="" if maker is None else operations[maker].line,
            group="" if maker is None else operations[maker].group,
            reads=() if maker is None else (maker,),
            is_result=True,
        )

    def _written(self, part: Part) -> Candidate:
        values = self._program.values
        module = ir.Module.create()
        _copy_attributes(self._entry.module.operation, module.operation, without=_OF_EVERY_ARGUMENT)
        with ir.InsertionPoint(module.body):
            self._write_entry(part)
            self._write_functions([name for index in part.operations for name in self._called[index]])
        aliases = part.aliases(self._aliases)
        entry = entry_of(module)
        write_aliases(module, entry.function, aliases)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            made = [str(values[one].type) for one in part.arguments]
            raise GraphError(f"operations {part.operations} alone, on {made}, are no valid module: {error}") from error
        return Candidate(len(part.operations), bytecode(module), aliases={one.output: one.input for one in aliases})

    def _write_entry(self, part: Part) -> None:
        values, whole = self._program.values, self._entry.function
        arguments, returned = [values[one] for one in part.arguments], [values[one] for one in part.returned]
        function = func.FuncOp(ENTRY, ([one.type for one in arguments], [one.type for one in returned])).operation
        _copy_attributes(whole, function, without=_OF_THE_SIGNATURE)
        nothing = ir.DictAttr.get({})
        of_arguments = dict(enumerate(dictionaries(whole, "arg_attrs")))
        set_dictionaries(function, "arg_attrs", [of_arguments.get(one, nothing) for one in part.arguments])
        of_results = dictionaries(whole, "res_attrs") or [nothing] * len(self._program.returned)
        kept = [of_results[position] for position in part.results]
        set_dictionaries(function, "res_attrs", [*kept, *[nothing] * (len(returned) - len(kept))])
        block = function.regions[0].blocks.append(*[one.type for one in arguments])
        with ir.InsertionPoint(block):
            copies = dict(zip(arguments, block.arguments, strict=True))
            for index in part.operations:
                copy_operation(self._entry.operations[index], copies)
            func.ReturnOp([copies[one] for one in returned])

    def _write_functions(self, called: Iterable[str]) -> None:
        for name in needed_functions(called, lambda one: self._calls.get(one, ())):
            if name in self._functions:
                self._functions[name].clone(ir.InsertionPoint.current)
        for other in self._entry.module.body.operations:
            if other.operation.name != "func.func":
                other.operation.clone(ir.InsertionPoint.current)


@dataclass(frozen=True)
class _Program:
    """The values of a function by number, arguments first, and which of them its operations use and make.

    Attributes:
        values: by number.
        inputs: how many of them are arguments.
        used: for each operation, what it and its regions use of them, each once.
        made: for each operation, its results.
        returned: what the function returns.
        maker: the operation of each value that is no argument.
        read: values that something uses or that are returned.
    """

    values: Sequence[ir.Value]
    inputs: int
    used: Sequence[tuple[int, ...]]
    made: Sequence[tuple[int, ...]]
    returned: Sequence[int]
    maker: dict[int, int]
    read: frozenset[int]

    @staticmethod
    def of(arguments: Iterable[ir.Value], operations: Sequence[Any], returned: Sequence[ir.Value]) -> _Program:
        """A function's body, taken apart."""
        values = list(arguments)
        inputs = len(values)
        for operation in operations:
            values.extend(operation.results)
        numbers = {value: number for number, value in enumerate(values)}
        used = [_used_by(one, numbers) for one in operations]
        made = [tuple(numbers[value] for value in one.results) for one in operations]
        results = [numbers[value] for value in returned]
        maker = {value: index for index, one in enumerate(made) for value in one}
        return _Program(values, inputs, used, made, results, maker, frozenset(results).union(*used))

    def reads(self, operation: int) -> tuple[int, ...]:
        """The operations whose results this one uses."""
        return tuple(sorted({self.maker[value] for value in self.used[operation] if value in self.maker}))

    @cached_property
    def whole(self) -> Part:
        """All of it."""
        return Part(range(self.inputs), range(len(self.made)), self.returned, range(len(self.returned)))

    def part(self, operations: Sequence[int], positions: Sequence[int]) -> Part:
        """These operations, in order, and of the results at these positions those that they or arguments give."""
        made = {value for index in operations for value in self.made[index]}
        used = list(dict.fromkeys(value for index in operations for value in self.used[index]))
        results = [at for at in positions if self.returned[at] < self.inputs or self.returned[at] in made]
        returned = [self.returned[at] for at in results]
        taken = {value for value in [*used, *returned] if value not in made}
        arguments = sorted(value for value in taken if value < self.inputs)
        arguments += [value for value in used if value in taken and value >= self.inputs]
        known = {*used, *returned}
        unread = [value for index in operations for value in self._worth_reading(index) if value not in known]
        return Part(arguments, operations, [*returned, *unread], results)

    def _worth_reading(self, operation: int) -> Sequence[int]:
        """Results that the whole program reads; all of them if it reads none."""
        made = self.made[operation]
        return [value for value in made if value in self.read] or made


def _used_by(operation: Any, numbers: dict[ir.Value, int]) -> tuple[int, ...]:
    used = [numbers[value] for inner in nested(operation) for value in inner.operands if value in numbers]
    return tuple(dict.fromkeys(used))


def _copy_attributes(source: Any, target: Any, without: Collection[str]) -> None:
    for name, value in source.attributes.items():
        if name not in without:
            target.attributes[name] = value


def _runs(files: Sequence[str]) -> list[str]:
    """The files, with a number from the second time on that a file comes after another one."""
    times: Counter[str] = Counter()
    names = []
    before = ""
    for file in files:
        times[file] += file != before
        before = file
        names.append(f"{file} ({times[file]})" if file and times[file] > 1 else file)
    return names
