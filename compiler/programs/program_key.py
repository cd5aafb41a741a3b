"""The key of a region's program: everything that can change the program, and nothing that cannot.

Passes are no part of it: the key holds the graph as they left it. Neither are names, source lines, paths and weights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import jaxlib.version
import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from ...passes.context import placeholders
from ...runtime.dtype_names import name_of
from ...runtime.store.key import PROGRAM, ArtifactKey
from ..lowering import lower
from ..lowering.call_arguments import is_custom
from ..lowering.decompose import Decompositions
from ..lowering.device_kernels.kernel import DeviceKernel
from ..lowering.device_kernels.replacement import Replacements
from ..lowering.options import LoweringOptions
from ..regions.canonical import canonical_text
from ..regions.cut import Region
from ..targets.base import Target
from .kernel_sources import kernel_sources
from .sources import function_sources, module_sources

SCHEMA = 1
"""Counts changes of what a stored program means: its calling convention and its metadata."""


def program_key(
    region: Region,
    target: Target,
    options: LoweringOptions,
    decompositions: Decompositions | None = None,
    replacements: Replacements | None = None,
) -> ArtifactKey:
    """The key of the program that ``target`` makes of a region lowered with ``options``, and with what they share.

    Raises:
        ArtifactError: a kernel in the graph is not determined by its sources (see ``sources.function_sources``).
    """
    used = _device_kernels(
        region.module, decompositions or Decompositions(options), replacements or Replacements(options)
    )
    parts = {
        "schema": SCHEMA,
        "target": target.name,
        "fingerprint": target.fingerprint(),
        "lowering": asdict(options),
        "inputs": [_signature(node.meta["val"]) for node in placeholders(region.module)],
        "aliases": sorted(region.aliases.items()),
        "torch": str(torch.__version__),
        "jaxlib": jaxlib.version.__version__,
        "compiler sources": module_sources(lower) | module_sources(sys.modules[type(target).__module__]),
        "kernel sources": _kernel_sources(region.module),
        "device kernels": {name: kernel_sources(kernel) for name, kernel in sorted(used.items())},
    }
    return ArtifactKey(PROGRAM, parts, {"graph": canonical_text(region)})


def _signature(value: torch.Tensor) -> str:
    """Programs take dense row-major memory, whatever strides the tensor had in the model."""
    return f"{name_of(value.dtype)}{list(value.shape)} row-major"


def _kernel_sources(module: fx.GraphModule) -> dict[str, Any]:
    """Sources by operator, for those whose meaning is Python code outside PyTorch."""
    operators = {node.target for node in _all_nodes(module) if isinstance(node.target, OpOverload)}
    known = sorted(operators & decomposition_table.keys(), key=str)
    found = {str(operator): function_sources(decomposition_table[operator]) for operator in known}
    return {name: sources for name, sources in found.items() if sources}


def _device_kernels(
    module: fx.GraphModule, decompositions: Decompositions, replacements: Replacements
) -> dict[str, DeviceKernel]:
    """By name, the device kernels that replace calls in a graph and in the bodies that stay."""
    used: dict[str, DeviceKernel] = {}
    waiting, seen = [module] if replacements.has_kernels else [], set()
    while waiting:
        for node in _all_nodes(waiting.pop()):
            kernel = replacements.kernel(node)
            if kernel is not None:
                used[kernel.name] = kernel
            elif is_custom(node.target) and decompositions.key(node) not in seen:
                seen.add(decompositions.key(node))
                waiting.append(decompositions.graph(node))
    return used


def _all_nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of a graph and of the graphs inside it, such as the bodies of loops."""
    for one in module.modules():
        if isinstance(one, fx.GraphModule):
            yield from one.graph.nodes
