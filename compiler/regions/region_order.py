"""In which order the regions of a step can run."""

from __future__ import annotations

from collections.abc import Sequence

import networkx

from ...errors import GraphError
from .cut import Place, Region, StepValue


def region_graph(regions: Sequence[Region]) -> networkx.DiGraph:
    """Which region needs which: an edge for every value handed on, and from each use of an input to its update.

    Raises:
        GraphError: a region reads a value that no earlier one makes.
    """
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(regions)))
    makers: dict[Place, int] = {}
    readers: dict[Place, list[int]] = {}
    for number, region in enumerate(regions):
        for place in region.inputs:
            if place in makers:
                graph.add_edge(makers[place], number)
            elif isinstance(place, StepValue):
                raise GraphError(f"region {region.name!r} reads {place.name!r}, which no earlier region makes")
            readers.setdefault(place, []).append(number)
        for place in region.outputs:
            graph.add_edges_from((reader, number) for reader in readers.pop(place, []) if reader != number)
            makers[place] = number
    return graph


def check_order(graph: networkx.DiGraph) -> None:
    """Raise GraphError unless the regions' numbers are an order in which they can run."""
    late = [(maker, user) for maker, user in graph.edges if maker >= user]
    if late:
        raise GraphError(f"regions {late} need each other's results out of order; mark stages in the program's order")
