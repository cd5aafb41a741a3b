"""Graph modules that generate their Python code when they are called, and not whenever their graph changes.

Most modules here are rewritten, cut and lowered, and never run; the code would be a third of the time of the passes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module


def lazy_module(root: torch.nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """A module that runs ``graph`` with the constants and subgraphs of ``root``."""
    return _LazyGraphModule(root, graph)


def lazy_modules() -> AbstractContextManager[None]:
    """Have PyTorch's tracers make such modules."""
    return _use_lazy_graph_module(True)
