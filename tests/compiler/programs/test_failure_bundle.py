"""What a failed compilation leaves is enough to compile the same again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject, stage_groups
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.graphs.graph_file import SavedGraph
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.programs import failed_region
from deepinfer_neuron.compiler.programs.failure_bundle import (
    BUNDLE,
    GRAPH,
    LOG,
    MODULE,
    Bundle,
    bundle_files,
    read_bundle,
)
from deepinfer_neuron.compiler.targets import table
from deepinfer_neuron.compiler.targets.flags import default_flags
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget
from deepinfer_neuron.errors import ArtifactError, CompileError, GraphError
from deepinfer_neuron.runtime.store.store import ArtifactStore
from graph_steps import trace_random
from neuron_compilers import install_compiler
from staged_steps import StagedStep


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "a store")


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NeuronTarget:
    target = NeuronTarget(default_flags("trn2"), install_compiler(tmp_path / "bin", "internal"), retries=0)
    monkeypatch.setitem(table.TARGETS, "trn2", lambda: target)
    return target


def compile_and_fail(store: ArtifactStore | bool, mode: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_decode(StagedStep(), [2], target="trn2", mode=mode, store=store)
    return caught.value


def bundle_of(error: CompileError) -> tuple[Bundle, Path]:
    """What the command in the last line of the error's message is given."""
    *_, last = str(error).splitlines()
    program, command, path = shlex.split(last.removeprefix("  next: "))
    assert (program, command) == ("deepinfer-neuron", "bisect")
    return read_bundle(Path(path)), Path(path)


@pytest.mark.parametrize("mode", ["whole", "regions"])
def test_a_compiler_that_fails_leaves_the_graph_and_the_module(store, failing, mode):
    error = compile_and_fail(store, mode)
    bundle, path = bundle_of(error)
    graph = bundle.graph
    assert (graph.target, graph.numerics, bundle.batch_size) == ("trn2", "fast", 2)
    assert graph.name == ("whole" if mode == "whole" else "sum")
    assert list(graph.stage_names) == ["sum", "tanh", "end"]
    assert lower_graph(graph.module, device_options("trn2"), graph.aliases).bytecode == bundle.module
    assert bundle.fingerprint == failing.fingerprint()
    assert bundle.signature.startswith("CompileError: trn2: NCC_ITRF901")
    assert "neuronx-cc compile module.mlir --framework=XLA" in bundle.error
    assert bundle.log == error.log and "TritiumFusion assertion error" in bundle.log
    assert path.parent == store.local.layout.failures
    assert read_bundle(path / BUNDLE).module == bundle.module


def test_the_groups_of_a_whole_step_are_its_stages(store, failing):
    graph = bundle_of(compile_and_fail(store, "whole"))[0].graph
    groups = stage_groups(graph.module, graph.stage_names)
    subject = GraphSubject(graph.module, graph.aliases, device_options(graph.target), groups)
    assert list(dict.fromkeys(item.group for item in subject.items)) == ["sum", "tanh", "end"]


def test_a_known_failure_names_the_bundle_again_and_makes_it_if_it_is_lost(store, failing):
    bundle, path = bundle_of(compile_and_fail(store, "whole"))
    again = compile_and_fail(store, "whole")
    assert "saw this before" in str(again)
    assert bundle_of(again)[1] == path
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    renewed, _ = bundle_of(compile_and_fail(store, "whole"))
    assert (renewed.module, renewed.error, renewed.log) == (bundle.module, bundle.error, bundle.log)
    store.clear_failures()
    assert not path.exists()


def test_without_a_store_the_message_says_how_to_keep_it(failing):
    assert str(compile_and_fail(False, "whole")).splitlines()[-1].startswith("  next: give a store (--store or")


def test_a_graph_that_cannot_be_saved_does_not_hide_the_failure(store, failing, monkeypatch):
    def refuse(bundle: Bundle):
        raise GraphError("a symbolic size")

    monkeypatch.setattr(failed_region, "bundle_files", refuse)
    error = str(compile_and_fail(store, "whole"))
    assert error.startswith("trn2: NCC_ITRF901")
    assert error.endswith("nothing was kept for `deepinfer-neuron bisect`: a symbolic size")


def written(directory: Path) -> Path:
    step = trace_random(["scaled"], "trn2")
    lowered = lower_graph(step.module, device_options("trn2"), step.aliases)
    graph = SavedGraph(step.module, step.aliases, "trn2", step.stage_names, name="whole")
    bundle = Bundle(graph, lowered.bytecode, 4, "neuronx-cc 2.27", "CompileError: no", "no\nat all", "log \u00e9")
    for name, content in bundle_files(bundle).items():
        (directory / name).write_bytes(content)
    read = read_bundle(directory)
    assert replace(read, graph=graph) == bundle
    return directory


def change_description(directory: Path, **changes: object) -> None:
    path = directory / BUNDLE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", [GRAPH, MODULE, LOG])
def test_damage_of_a_file_is_noticed(tmp_path, name):
    path = written(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(ArtifactError, match=f"{name} is damaged"):
        read_bundle(tmp_path)
    path.unlink()
    with pytest.raises(ArtifactError, match=f"has lost {name}"):
        read_bundle(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "has schema 2, and this version reads 1"),
        ({"kind": "plan"}, "describes no failed compilation"),
        ({"batch_size": "4"}, "a field is missing or of another type"),
        ({"error": None}, "a field is missing or of another type"),
        ({"sha256": {}}, "is damaged"),
    ],
)
def test_a_description_that_is_none_is_refused(tmp_path, changes, message):
    change_description(written(tmp_path), **changes)
    with pytest.raises(ArtifactError, match=message):
        read_bundle(tmp_path)


def test_what_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"is no bundle of a failed compilation: it has no bundle\.json"):
        read_bundle(tmp_path)
    (tmp_path / BUNDLE).write_bytes(b"\xff")
    with pytest.raises(ArtifactError, match=r"bundle\.json is damaged"):
        read_bundle(tmp_path)
    with pytest.raises(ArtifactError, match="is no bundle"):
        read_bundle(tmp_path / BUNDLE / "further")


def test_a_bundle_does_not_depend_on_where_its_store_is(store, failing, tmp_path):
    _, path = bundle_of(compile_and_fail(store, "whole"))
    store.local.root.rename(tmp_path / "moved")
    moved = tmp_path / "moved" / path.relative_to(store.local.root)
    assert read_bundle(moved).graph.name == "whole"
    assert str(tmp_path / "a store").encode() not in b"".join((moved / name).read_bytes() for name in (GRAPH, MODULE))
