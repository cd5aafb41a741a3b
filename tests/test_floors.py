"""Imports go down the floors only: cli > llm > compiler | model > runtime > passes > errors, settings."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import deepinfer_neuron
import pytest

ROOT = Path(deepinfer_neuron.__file__).parent
NOT_SOURCE = {".venv", "build", "tests"}
FLOORS = {
    **dict.fromkeys(("errors", "settings", "console", "files", "reporting"), 0),
    "passes": 1,
    "runtime": 2,
    **dict.fromkeys(("compiler", "model"), 3),
    **dict.fromkeys(("loading", "decode_source", "ahead_of_time", "golden_run"), 4),
    **dict.fromkeys(("preflight", "preflight_tables", "preflight_rules"), 4),
    **dict.fromkeys(("workbench", "explain", "doctor", "compile_progress"), 4),
    **dict.fromkeys(("bisect_report", "bisect_run", "bisect_accuracy", "accuracy_step", "dump"), 4),
    **dict.fromkeys(("demo", "demo_tables", "verify", "verify_tables", "benchmarks"), 4),
    **dict.fromkeys(("cli", "cli_bench", "cli_bisect", "cli_cache", "cli_compile", "cli_doctor", "cli_dump"), 5),
    **dict.fromkeys(("cli_options", "cli_preflight", "cli_vendor"), 5),
    **dict.fromkeys(("__main__", "__init__"), 5),
}
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
    return {name[1] for name in names if name[0] == "deepinfer_neuron" and len(name) > 1 and name[1] in FLOORS}


def test_the_walk_sees_the_package():
    assert {"compiler", "model", "passes", "runtime", "errors", "settings"} <= {part_of(path) for path in SOURCES}
    assert "runtime" in imported_parts(ROOT / "compiler" / "capture.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_its_own_floor_or_below(path):
    part = part_of(path)
    assert part in FLOORS, f"{part} has no floor"
    for other in imported_parts(path) - {part}:
        assert FLOORS[other] <= FLOORS[part], f"{part} imports {other}, which is above it"
        assert {part, other} != {"compiler", "model"}, "compiler and model meet in graphs, not in imports"


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
