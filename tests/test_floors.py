"""A file imports from the floors below its own, and nothing at the root hides a module of Python's own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import deepinfer_neuron
import pytest

ROOT = Path(deepinfer_neuron.__file__).parent
NOT_SOURCE = {".venv", "build", "tests"}
FLOORS = [
    {"errors", "settings", "files", "reporting"},
    {"passes"},
    {"runtime"},
    {"compiler", "model"},
    {"explain"},
    {"engine"},
    {"verification"},
    {"preflight", "doctor"},
    {"bisection"},
    {"benchmarks"},
    {"cli"},
    {"__main__", "__init__"},
]
"""From the ground up. Parts of one floor do not import each other, but for those of the ground."""
FLOOR_OF = {part: number for number, floor in enumerate(FLOORS) for part in floor}
SOURCES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in NOT_SOURCE)


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    """Absolute names of everything a file imports; ``from a import b`` counts as ``a`` and ``a.b``."""
    package = ("deepinfer_neuron", *path.relative_to(ROOT).parent.parts)
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules.add(module)
            modules.update(f"{module}.{alias.name}" for alias in node.names)
    return modules


def imported_parts(path: Path) -> set[str]:
    names = [name.split(".") for name in imported_modules(path)]
    return {name[1] for name in names if name[0] == "deepinfer_neuron" and len(name) > 1 and name[1] in FLOOR_OF}


def test_the_walk_sees_the_package():
    assert {"compiler", "model", "passes", "runtime", "errors", "settings"} <= {part_of(path) for path in SOURCES}
    assert "runtime" in imported_parts(ROOT / "compiler" / "capture" / "capture.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_its_own_floor_or_below(path):
    part = part_of(path)
    assert part in FLOOR_OF, f"{part} has no floor"
    for other in imported_parts(path) - {part}:
        climbs = FLOOR_OF[other] > FLOOR_OF[part] or (FLOOR_OF[other] == FLOOR_OF[part] != 0)
        assert not climbs, f"{part} imports {other}, which is not below it"


def test_nothing_at_the_root_has_the_name_of_a_standard_module():
    names = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {"compiler", "bisection", "settings"} <= names
    assert not names & sys.stdlib_module_names


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if part_of(path) == "runtime"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_runtime_does_without_dynamo(path):
    assert not [name for name in imported_modules(path) if name.startswith("torch._dynamo")]


@pytest.mark.parametrize("module", ["deepinfer_neuron", "deepinfer_neuron.runtime.runner"])
def test_a_process_that_only_replays_never_loads_dynamo(module):
    code = f"import sys, {module}; print(sorted(name for name in sys.modules if name.startswith('torch._dynamo')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
