"""What decides something that is stored is found by reading files, as Python's own parser reads them."""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest
from deepinfer_neuron.runtime import sources
from deepinfer_neuron.runtime.plan_sources import plan_sources
from deepinfer_neuron.runtime.sources import ROOT, code_of, imports_of, source_digests, source_files

READ = {
    **source_files("deepinfer_neuron.compiler.targets.table", "deepinfer_neuron.compiler.steps.started_steps"),
    **source_files("deepinfer_neuron.compiler.programs.region_lowering", "deepinfer_neuron.model.weights"),
    **source_files("deepinfer_neuron.runtime.stored_tensors"),
}
"""Every file that a key asks for."""


def text_of(tree: ast.AST) -> str:
    """A syntax tree without positions and with empty docstrings."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                node.value.value = ""
    return ast.dump(tree)


def parsed_imports(node: ast.AST, package: str) -> set[str]:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return set()
        case ast.Import():
            return {alias.name for alias in node.names}
        case ast.ImportFrom():
            base = resolve_name("." * node.level + (node.module or ""), package)
            return {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return {name for child in ast.iter_child_nodes(node) for name in parsed_imports(child, package)}


@pytest.mark.parametrize("part", ["compiler", "model", "passes", "runtime"])
def test_a_file_is_read_as_python_reads_it(part: str) -> None:
    paths = [path for path in READ.values() if path.relative_to(ROOT).parts[0] == part]
    assert paths
    for path in paths:
        text = path.read_text()
        code, package = code_of(text), ".".join(("deepinfer_neuron", *path.relative_to(ROOT).parent.parts))
        tree = ast.parse(text)
        assert set(imports_of(code, package)) == parsed_imports(tree, package), path
        assert text_of(ast.parse(code)) == text_of(tree), path


TEXT = '''"""What it is for."""
from a import b
def f(x):
    """Says what."""
    return x + "#1"
'''


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("return", "# why\n    return"),
        TEXT.replace("\nfrom", "\n\n\n# about\n\n\nfrom"),
        TEXT.replace('"#1"', '"#1"  # one'),
        TEXT.replace("Says what.", "Says what.\n\n    # and more: x is [2]\n    "),
        TEXT.replace("What it is for.", "What it is for, at length."),
    ],
)
def test_comments_docstrings_and_blank_lines_are_no_code(other: str) -> None:
    assert other != TEXT
    assert code_of(other) == code_of(TEXT)


@pytest.mark.parametrize(
    "other", [TEXT.replace("#1", "#2"), TEXT.replace("x +", "x *"), TEXT.replace("import b", "import c")]
)
def test_all_else_is_code(other: str) -> None:
    assert code_of(other) != code_of(TEXT)


def test_imports_are_followed_into_functions_and_not_for_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "first": "from .near import one\nif TYPE_CHECKING:\n    from .types import Hint\n",
        "near/__init__": "",
        "near/one": "def f():\n    from .. import last\n",
        "last": "import torch\nfrom .first import near\n",
        "types": "",
        "other": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    sources._file.cache_clear()
    try:
        names = set(source_files("deepinfer_neuron.first"))
    finally:
        sources._file.cache_clear()
    assert names == {f"deepinfer_neuron.{name}" for name in ("first", "near", "near.one", "last")}


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_file", lambda name: tmp_path / "one.py")
    (tmp_path / "one.py").write_text("A = 1\n")
    before = source_digests("deepinfer_neuron.one")
    (tmp_path / "one.py").write_text("A = 1 + 1\n")
    assert source_digests("deepinfer_neuron.one") != before


def test_an_entry_that_is_not_a_module_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="not a module of deepinfer_neuron"):
        source_files("deepinfer_neuron.compiler.nothing")


def test_every_module_without_effect_exists_and_is_left_out() -> None:
    assert all(sources._file(name) for name in sources.WITHOUT_EFFECT)
    assert not set(plan_sources("trn2")) & set(sources.WITHOUT_EFFECT)
