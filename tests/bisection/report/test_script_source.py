"""The files that a script carries work without the package, one after the other in one file."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from types import ModuleType

import pytest
from deepinfer_neuron.bisection.report.script_source import MODULES, script_source


def imports_of(source: str) -> list[tuple[int, str]]:
    """Level and module of everything that a file imports, wherever it does."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or ""))
    return found


def defined_names(module: ModuleType) -> set[str]:
    """Names that a file defines and does not import."""
    names: set[str] = set()
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return names


def package_imports(module: ModuleType) -> list[ast.alias]:
    """What a file imports of others of the package."""
    return [
        alias
        for statement in ast.parse(inspect.getsource(module)).body
        if isinstance(statement, ast.ImportFrom) and statement.level
        for alias in statement.names
    ]


def test_only_pythons_own_library_is_imported():
    found = imports_of(script_source())
    assert len(found) > 10
    assert [name for level, name in found if level or name.split(".")[0] not in sys.stdlib_module_names] == []


def test_no_two_files_define_one_name():
    counts = Counter(name for module in MODULES for name in defined_names(module))
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("number", range(len(MODULES)), ids=lambda number: MODULES[number].__name__.rpartition(".")[2])
def test_what_a_file_imports_of_the_package_is_defined_before_it(number):
    before = {name for module in MODULES[:number] for name in defined_names(module)}
    imported = package_imports(MODULES[number])
    assert {alias.name for alias in imported} <= before
    assert not [alias.asname for alias in imported if alias.asname], "the script would know it by another name"


def test_every_line_of_the_files_is_there_but_for_imports_of_each_other():
    lines = Counter(script_source().splitlines())
    for module in MODULES:
        left_out = [line for line in inspect.getsource(module).splitlines() if not lines[line]]
        assert all(line.startswith("from .") for line in left_out), left_out


def test_the_script_of_a_report_is_short_enough_to_read():
    assert 400 < script_source().count("\n") < 900
