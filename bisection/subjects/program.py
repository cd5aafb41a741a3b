"""What is given to bisect: a failed compilation, a saved graph or a module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...compiler.graphs.graph_file import SavedGraph, load_graph
from ...compiler.programs.failure_bundle import BUNDLE, read_bundle
from ...compiler.targets.table import find_target
from ...errors import ArtifactError
from .graph_subject import GraphSubject, stage_groups
from .module_subject import ModuleSubject
from .subject import Subject


@dataclass(frozen=True)
class Program:
    """Something to cut down.

    Attributes:
        title: for people.
        subject: that is cut.
        target: whose passes it went through; empty if it is not known.
    """

    title: str
    subject: Subject
    target: str = ""


def open_program(path: Path) -> Program:
    """The program in a file or a directory.

    Args:
        path: a bundle of a failed compilation, a graph file (``.json``), a StableHLO module or an HLO proto.

    Raises:
        ArtifactError: there is nothing, or it is none of these or damaged.
        InputError: it is a module that cannot be cut.
    """
    if not path.exists():
        raise ArtifactError(f"{path} is not there: give what a failed compilation left, a graph file or a module")
    if path.is_dir() or path.name == BUNDLE:
        bundle = read_bundle(path)
        batch = "" if bundle.batch_size is None else f", batch {bundle.batch_size}"
        return program_from_graph(bundle.graph, f"{bundle.graph.name or 'whole'}{batch}")
    if path.suffix == ".json":
        saved = load_graph(path)
        return program_from_graph(saved, saved.name or path.name)
    return Program(path.name, ModuleSubject(path))


def program_from_graph(saved: SavedGraph, title: str) -> Program:
    """The program of a graph, lowered as its target wants it."""
    options = find_target(saved.target).lowering_options(saved.numerics)
    groups = stage_groups(saved.module, saved.stage_names)
    subject = GraphSubject(saved.module, saved.aliases, options, groups)
    return Program(f"{title}, {saved.target}", subject, saved.target)
